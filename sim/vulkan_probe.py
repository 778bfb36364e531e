"""Which Vulkan driver this machine has, and whether SAPIEN can render with it.

Run as a program in a process of its own, since a broken driver ends the process: `python -P vulkan_probe.py cpu|cuda`.
The first line of its output is a JSON list of Vulkan devices as the loader reports them; the second is `OK` once SAPIEN
has created a `RenderSystem` on the given device.
"""

import ctypes
import json
import sys

# Values and layouts of the Vulkan 1.2 headers (vulkan_core.h).
_TYPE_INSTANCE_CREATE_INFO = 1
_TYPE_APPLICATION_INFO = 0
_TYPE_PROPERTIES_2 = 1000059001
_TYPE_DRIVER_PROPERTIES = 1000196000
_API_VERSION_1_2 = (1 << 22) | (2 << 12)
_DEVICE_TYPE_CPU = 4


class _ApplicationInfo(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("application_name", ctypes.c_char_p),
        ("application_version", ctypes.c_uint32),
        ("engine_name", ctypes.c_char_p),
        ("engine_version", ctypes.c_uint32),
        ("api_version", ctypes.c_uint32),
    ]


class _InstanceCreateInfo(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("flags", ctypes.c_uint32),
        ("application_info", ctypes.POINTER(_ApplicationInfo)),
        ("layer_count", ctypes.c_uint32),
        ("layers", ctypes.c_void_p),
        ("extension_count", ctypes.c_uint32),
        ("extensions", ctypes.c_void_p),
    ]


class _DriverProperties(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("driver_id", ctypes.c_int),
        ("name", ctypes.c_char * 256),
        ("info", ctypes.c_char * 256),
        ("conformance_version", ctypes.c_uint8 * 4),
    ]


class _Properties2(ctypes.Structure):
    _fields_ = [
        ("type", ctypes.c_int),
        ("next", ctypes.c_void_p),
        ("api_version", ctypes.c_uint32),
        ("driver_version", ctypes.c_uint32),
        ("vendor_id", ctypes.c_uint32),
        ("device_id", ctypes.c_uint32),
        ("device_type", ctypes.c_uint32),
        ("device_name", ctypes.c_char * 256),
        # The identifiers, limits and sparse properties that follow; larger than needed.
        ("rest", ctypes.c_uint64 * 128),
    ]


def devices() -> list[dict[str, str | bool]]:
    """Name, driver, driver version and kind of every Vulkan device of this machine.

    Raises:
        OSError: there is no Vulkan loader.
        RuntimeError: the loader finds no driver.
    """
    vulkan = ctypes.CDLL("libvulkan.so.1")
    application = _ApplicationInfo(type=_TYPE_APPLICATION_INFO, api_version=_API_VERSION_1_2)
    info = _InstanceCreateInfo(type=_TYPE_INSTANCE_CREATE_INFO, application_info=ctypes.pointer(application))
    instance = ctypes.c_void_p()
    if result := vulkan.vkCreateInstance(ctypes.byref(info), None, ctypes.byref(instance)):
        raise RuntimeError(f"vkCreateInstance returned {result}")
    count = ctypes.c_uint32()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), None)
    handles = (ctypes.c_void_p * count.value)()
    vulkan.vkEnumeratePhysicalDevices(instance, ctypes.byref(count), handles)
    return [_describe(vulkan, ctypes.c_void_p(handle)) for handle in handles]


def _describe(vulkan: ctypes.CDLL, handle: ctypes.c_void_p) -> dict[str, str | bool]:
    driver = _DriverProperties(type=_TYPE_DRIVER_PROPERTIES)
    properties = _Properties2(type=_TYPE_PROPERTIES_2, next=ctypes.addressof(driver))
    vulkan.vkGetPhysicalDeviceProperties2(handle, ctypes.byref(properties))
    return {
        "device": properties.device_name.decode(),
        "driver": driver.name.decode(),
        "version": driver.info.decode(),
        "software": properties.device_type == _DEVICE_TYPE_CPU,
    }


def main() -> None:
    """Print the devices, then `OK` when SAPIEN renders on the device named by the first argument."""
    sys.stdout.write(json.dumps(devices()) + "\n")
    sys.stdout.flush()
    import sapien

    # Shader compilation and the driver's own checks happen here; a driver that does not fit raises or crashes.
    sapien.render.RenderSystem(sapien.Device(sys.argv[1]))
    sys.stdout.write("OK\n")


if __name__ == "__main__":
    main()
