#!/usr/bin/env bash
# Install the system libraries that software rendering needs, when this machine lacks them: the Vulkan loader, Mesa's
# software driver (lavapipe, 24.3 or newer) and what OpenCV links to. Quick when nothing is missing; asks before using
# root unless it is root. Debian releases whose Mesa is older take it from their backports, from the machine's own mirror.
#
# usage: sim/install_vulkan.sh [PYTHON]     PYTHON: an interpreter with robomem installed
set -euo pipefail

python=${1:-.venv/bin/python}
packages=(libvulkan1 mesa-vulkan-drivers libgl1 libglib2.0-0)
needed=24.3

# The judge is SAPIEN itself. Prints the driver's version, or what is wrong, on one line.
check() {
    "$python" -c 'import cv2; from robomem.sim.vulkan import check_vulkan; print("Vulkan:", check_vulkan().version)' 2>&1 | tail -n 1
}

# Version of Mesa that apt would install from the suites it knows, or from the one given.
candidate() { apt-cache policy ${1:+-t "$1"} mesa-vulkan-drivers | sed -n 's/^ *Candidate: //p'; }

recent() { dpkg --compare-versions "${1/(none)/0}" ge "$needed"; }

# The source entry of the suite $1, in either format of apt, with the suite replaced by $2 and main as component.
entry() {
    local files=() file
    for file in /etc/apt/sources.list.d/*.sources; do [ -e "$file" ] && files+=("$file"); done
    if [ ${#files[@]} -gt 0 ]; then
        awk -v suite="$1" -v replacement="$2" '
            BEGIN { RS = ""; FS = "\n" }
            /(^|\n)Enabled: *no/ || !match($0, "(^|\n)Types:[^\n]*deb( |\n|$)") { next }
            match($0, "(^|\n)Suites:([^\n]* )? *" suite "( |\n|$)") {
                for (i = 1; i <= NF; i++) {
                    if ($i ~ /^#/) continue
                    if ($i ~ /^Types:/) $i = "Types: deb"
                    if ($i ~ /^Suites:/) $i = "Suites: " replacement
                    if ($i ~ /^Components:/) $i = "Components: main"
                    print $i
                }
                exit
            }' "${files[@]}" > "$sources/robomem-backports.sources"
        if [ -s "$sources/robomem-backports.sources" ]; then return 0; fi
    fi
    for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
        [ -e "$file" ] || continue
        sed -nE "s/^ *(deb( +\[[^]]*\])? +[^ ]+ +)$1 .*/\1$2 main/p" "$file" | head -n 1 > "$sources/robomem-backports.list"
        if [ -s "$sources/robomem-backports.list" ]; then return 0; fi
    done
    echo "error: apt has no source of $1; add $2 to its sources yourself and run this again" >&2
    return 1
}

install_packages() {
    sources=/etc/apt/sources.list.d
    trap 'rm -f "$sources"/robomem-backports.*' EXIT
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    local suite=()
    if ! recent "$(candidate)"; then
        local codename; codename=$(sed -n "s/^VERSION_CODENAME=//p" /etc/os-release)
        entry "$codename" "$codename-backports"
        apt-get update -qq
        suite=(-t "$codename-backports")
        if ! recent "$(candidate "$codename-backports")"; then
            echo "error: $codename has no Mesa $needed, nor have its backports" >&2
            return 1
        fi
    fi
    apt-get install -y -qq --no-install-recommends "${suite[@]}" "${packages[@]}"
}

if check; then exit 0; fi
if ! command -v apt-get > /dev/null; then
    echo "error: install Mesa's Vulkan drivers $needed or newer and the Vulkan loader with this system's package manager" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    command=(sudo bash "$(realpath "$0")" "$(realpath -s "$python")")
    if [ ! -t 0 ]; then
        echo "error: software rendering needs system packages; install them with: ${command[*]}" >&2
        exit 1
    fi
    read -r -p "Install ${packages[*]} as root (sudo)? [y/N] " answer
    [[ $answer == [yY]* ]] || { echo "nothing installed; the command is: ${command[*]}" >&2; exit 1; }
    exec "${command[@]}"
fi
install_packages
check
