"""Memories that store entries: what is written, rewritten and forgotten, when, and what can still be told from it."""

import pytest
import torch
from memories import LAYOUT, B, awake, draw, make, run, seconds
from torch.utils.flop_counter import FlopCounterMode

from robomem.errors import RobomemError
from robomem.policies.memory.compressive import Compressive
from robomem.policies.memory.heatmap import HeatmapBank
from robomem.policies.memory.layer import LayerMemory
from robomem.policies.memory.recurrent_tokens import RecurrentTokens
from robomem.policies.memory.retrieval import Retrieval
from robomem.policies.memory.summary import SummaryTokens

ENTRIES = ("layer", "heatmap", "compressive", "summary", "retrieval", "gated_bank")
ALL = (*ENTRIES, "recurrent_tokens")
CONTENTS = {
    "layer": {},
    "heatmap": {"maps": "used"},
    "compressive": {"recent": "recent_used", "compressed": "compressed_used"},
    "summary": {"summary": "summary_used", "segment": "segment_used"},
    "retrieval": {"segments": "used", "keys": "used"},
}
"""Content of a module's places, and the name of which of them are used."""


# What holds for all of them.


@pytest.mark.parametrize("name", ALL)
def test_a_gradient_reaches_everything_within_three_steps(name: str) -> None:
    """From the true initialisation: nothing is zero twice in a row."""
    module, reached = make(name), set()
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-3)
    target = draw(12, seed=1)
    for _ in range(3):
        out, _ = run(module, draw(12), dt=0.3)
        (out - target).square().mean().backward()
        reached |= {n for n, p in module.named_parameters() if p.grad is not None and p.grad.abs().max() > 1e-9}
        optimizer.step()
        optimizer.zero_grad()
    assert not {n for n, _ in module.named_parameters()} - reached


@pytest.mark.parametrize("name", [name for name in ALL if name != "gated_bank"])
def test_tokens_pass_unchanged_before_anything_is_learned(name: str) -> None:
    tokens = draw(12)
    torch.testing.assert_close(run(make(name), tokens)[0], tokens)


@pytest.mark.parametrize("name", ALL)
def test_gradients_reach_what_was_written_earlier_in_the_window(name: str) -> None:
    module = awake(make(name))
    tokens = draw(12).requires_grad_()
    out, _ = run(module, tokens, dt=0.3)
    out[:, -1].square().sum().backward()
    assert tokens.grad is not None
    assert tokens.grad[:, 0].any()


@pytest.mark.parametrize("name", ALL)
def test_memory_and_work_stay_the_same(name: str) -> None:
    module = awake(make(name)).requires_grad_(False)
    tokens, state, sizes, work = draw(1)[:, 0], module.init(B), set(), set()
    for _ in range(25):
        with FlopCounterMode(display=False) as counter:
            _, state = module.step(state, tokens, seconds(0.1))
        sizes.add(sum(value.numel() * value.element_size() for value in state.values()))
        work.add(counter.get_total_flops())
    assert len(sizes) == len(work) == 1
    assert work.pop() > 0


@pytest.mark.parametrize("name", ENTRIES)
def test_time_passes_in_seconds_with_and_without_observations(name: str) -> None:
    """Waiting and then seeing is the same as seeing after both; everything called an age grows by the seconds."""
    module = awake(make(name))
    _, state = run(module, draw(8), dt=0.3)
    later = module.advance(state, seconds(0.7))
    for key, age in state.items():
        if key.endswith("age"):
            torch.testing.assert_close(later[key][age > 0], age[age > 0] + 0.7, msg=key)
            assert age.dtype == torch.float32
            assert age.any()
    tokens = draw(1, seed=3)[:, 0]
    out, after = module.step(state, tokens, seconds(1.0))
    waited_out, waited = module.step(later, tokens, seconds(0.3))
    torch.testing.assert_close(out, waited_out)
    for key in after:
        torch.testing.assert_close(after[key], waited[key], msg=key)


@pytest.mark.parametrize("name", CONTENTS)
def test_what_an_empty_place_holds_has_no_influence(name: str) -> None:
    module = awake(make(name))
    _, state = run(module, draw(3), dt=0.3)
    spoilt = dict(state)
    if name == "layer":
        spoilt["slots"] = state["slots"].clone()
        spoilt["slots"][:, :, 3:] = 1e3
    for content, used in CONTENTS[name].items():
        spoilt[content] = torch.where(
            state[used].view(*state[used].shape, *[1] * (state[content].ndim - 2)), state[content], 1e3
        )
    assert any(not torch.equal(state[key], spoilt[key]) for key in state)
    tokens = draw(6, seed=4)
    assert torch.equal(run(module, tokens, state=state)[0], run(module, tokens, state=spoilt)[0])


@pytest.mark.parametrize("name", ALL)
def test_state_is_float32_under_autocast(name: str) -> None:
    module = awake(make(name))
    kinds = {key: value.dtype for key, value in module.init(B).items()}
    with torch.autocast("cpu", torch.bfloat16):
        out, state = run(module, draw(12), dt=0.3)
    assert {key: value.dtype for key, value in state.items()} == kinds
    assert out.isfinite().all()


@pytest.mark.parametrize("name", ENTRIES)
def test_what_is_looked_at_can_be_shown(name: str) -> None:
    """Attention to each place, none to empty ones, whose ages are NaN; the sink has the rest."""
    module = awake(make(name))
    tokens = draw(4)
    _, state = run(module, tokens, dt=0.6)
    shown = module.diagnostics(state, tokens[:, 3])
    assert shown["attention"].shape == shown["age"].shape
    assert not shown["attention"][shown["age"].isnan()].any()
    assert shown["attention"][~shown["age"].isnan()].all()
    assert (shown["attention"].sum(1) < 1).all()


# What an early cue leaves behind.


def told(name: str, ticks: int, dt: float = 0.1, rows: int = 512) -> float:
    """How often a linear readout of the state tells which of four cues came before `ticks` random observations."""
    module = make(name)
    generator = torch.Generator().manual_seed(5)
    cue = torch.randint(4, (rows,), generator=generator)
    tokens = draw(ticks + 1, seed=6, rows=rows)
    tokens[:, 0] = 2 * draw(1, seed=7, rows=4)[cue, 0]
    with torch.no_grad():
        _, state = run(module, tokens, dt)
    features = torch.cat([value.float().reshape(rows, -1) for value in state.values()], dim=1)
    features = torch.nn.functional.normalize(features - features[: rows // 2].mean(0), dim=1)
    kernel = features @ features[: rows // 2].T
    answers = torch.nn.functional.one_hot(cue, 4).float() - 0.25
    weights = torch.linalg.solve(kernel[: rows // 2] + 1e-3 * torch.eye(rows // 2), answers[: rows // 2])
    return float(((kernel[rows // 2 :] @ weights).argmax(1) == cue[rows // 2 :]).float().mean())


@pytest.mark.parametrize(
    ("name", "ticks", "dt"),
    [
        ("layer", 40, 0.1),
        ("heatmap", 40, 0.1),
        ("compressive", 30, 0.1),
        ("retrieval", 40, 0.1),
        ("summary", 24, 0.5),
        ("recurrent_tokens", 40, 0.1),
    ],
)
def test_an_early_cue_can_be_told_after_many_distractors(name: str, ticks: int, dt: float) -> None:
    """Before any training, so that there is something to learn from."""
    assert told(name, ticks, dt) > 0.8


def test_the_frame_stack_cannot_tell() -> None:
    assert told("window", 40) < 0.45


# Layer: least-recently-used slots.


def test_slots_are_written_in_turn_of_the_last_write() -> None:
    module = LayerMemory(LAYOUT, layers=2, slots=3, blend=0.25)
    state = module.init(B)
    for tick, token in enumerate(draw(8).unbind(1)):
        dt = seconds(0.1 * (tick + 1))
        waited = module.advance(state, dt)
        _, after = module.step(state, token, dt)
        changed = (after["slots"] != waited["slots"]).any(-1)
        oldest = torch.full((B,), tick) if tick < 3 else waited["age"].argmax(1)
        assert torch.equal(changed, torch.nn.functional.one_hot(oldest, 3).bool()[:, None].expand(-1, 2, -1))
        expected = torch.where(changed[:, 0], 0.0, waited["age"])
        torch.testing.assert_close(after["age"], expected)
        state = after


def test_the_number_of_writes_goes_round() -> None:
    """So a memory that has settled is the same again, and no number grows with the length of an episode."""
    module, writes = LayerMemory(LAYOUT, layers=1, slots=3), []
    state = module.init(B)
    for token in draw(11).unbind(1):
        _, state = module.step(state, token, seconds(0.1))
        writes.append(int(state["writes"][0]))
    assert writes == [1, 2, 3, 4, 5, 3, 4, 5, 3, 4, 5]


def test_an_empty_slot_is_replaced_and_a_full_one_blended() -> None:
    module, state = LayerMemory(LAYOUT, layers=1, slots=2, blend=0.25), None
    full = LayerMemory(LAYOUT, layers=1, slots=2, blend=1.0)
    full.load_state_dict(module.state_dict())
    _, state = run(module, draw(2))
    _, replaced = run(full, draw(2))
    assert torch.equal(state["slots"], replaced["slots"])
    token = draw(1, seed=2)[:, 0]
    _, blended = module.step(state, token, seconds(0.1))
    _, replaced = full.step(state, token, seconds(0.1))
    expected = 0.25 * replaced["slots"][:, 0, 0] + 0.75 * state["slots"][:, 0, 0]
    torch.testing.assert_close(blended["slots"][:, 0, 0], expected)


def test_what_a_slot_holds_stays_bounded() -> None:
    """However often it is rewritten: content is normalised, and blending is convex."""
    module = LayerMemory(LAYOUT, layers=1, slots=2, blend=0.5)
    _, state = run(module, 100 * draw(300, rows=1))
    assert state["slots"].norm(dim=-1).max() <= LAYOUT.channels**0.5 + 1e-3


# Heatmap: maps apart in time, first in, first out.


def test_maps_are_kept_at_intervals_of_seconds_and_the_oldest_is_forgotten() -> None:
    module = HeatmapBank(LAYOUT, entries=3, interval=0.5)
    tokens = draw(12)
    _, state = run(module, tokens[:, :5], dt=0.2)  # kept at 0, 0.6
    torch.testing.assert_close(state["age"], torch.tensor([0.2, 0.8, 0.0]).expand(B, -1))
    assert state["used"].tolist() == [[True, True, False]] * B
    _, state = run(module, tokens[:, 5:], dt=0.2, state=state)  # and at 1.2, 1.8; now is 2.2
    torch.testing.assert_close(state["age"], torch.tensor([0.4, 1.0, 1.6]).expand(B, -1))
    kept = module.encoder(tokens[:, 3])
    torch.testing.assert_close(state["maps"][:, 2], kept)


def test_a_map_says_where_attention_was() -> None:
    """The same patches under another instruction leave another map; attention sums to one in every image."""
    module = HeatmapBank(LAYOUT)
    tokens = draw(1)[:, 0]
    other = tokens.clone()
    other[:, -1] += 3
    where = module.encoder.where(tokens).unflatten(1, (LAYOUT.cameras, -1))
    torch.testing.assert_close(where.mean(-1), torch.ones(B, LAYOUT.cameras))
    assert (module.encoder(other) - module.encoder(tokens)).abs().max() > 1e-3


# Compressive: evict, then compress.


def test_the_oldest_block_is_compressed_when_recent_is_full() -> None:
    module = Compressive(LAYOUT, recent=3, compressed=2, rate=2)
    with torch.no_grad():
        module.compress.weight.copy_(torch.eye(LAYOUT.channels).repeat(1, 2) / 2)
    tokens = draw(8)
    patches = LAYOUT.perceptual(tokens)
    _, full = run(module, tokens[:, :3])
    assert full["recent_used"].all()
    assert not full["compressed_used"].any()
    _, state = run(module, tokens[:, 3:4], state=full)
    assert torch.equal(state["recent"][:, :2], patches[:, [3, 2]])
    assert state["recent_used"].tolist() == [[True, True, False]] * B
    torch.testing.assert_close(state["compressed"][:, 0], patches[:, :2].mean(1))
    torch.testing.assert_close(state["compressed_age"][:, 0], seconds(0.25))
    _, state = run(module, tokens[:, 4:], state=state)  # two more blocks, the first is forgotten
    torch.testing.assert_close(state["compressed"], torch.stack([patches[:, 4:6], patches[:, 2:4]], 1).mean(2))
    torch.testing.assert_close(state["compressed_age"], torch.tensor([0.25, 0.45]).expand(B, -1))


def test_a_block_larger_than_what_is_recent_is_refused() -> None:
    with pytest.raises(RobomemError, match="rate=4 observations cannot be evicted from recent=3; set rate <= recent"):
        Compressive(LAYOUT, recent=3, rate=4)


# Summary: segments by seconds.


def test_a_segment_ends_by_seconds_and_leaves_its_summary() -> None:
    module = SummaryTokens(LAYOUT, summaries=2, tokens=3, seconds=1.0, observations=6)
    _, state = run(module, draw(2), dt=0.6)  # 0.6 s long
    assert state["segment_used"].sum(1).tolist() == [2] * B
    assert not state["summary_used"].any()
    _, state = run(module, draw(1, seed=1), dt=0.6, state=state)  # 1.2 s: it ends
    assert not state["segment_used"].any()
    assert not state["segment"].any()
    torch.testing.assert_close(state["summary_age"], torch.tensor([0.6, 0.0]).expand(B, -1))
    first = state["summary"][:, 0]
    _, state = run(module, draw(6, seed=2), dt=0.1, state=state)  # as many as there is room for: it ends
    torch.testing.assert_close(state["summary_age"], torch.tensor([0.25, 1.2]).expand(B, -1))
    assert torch.equal(state["summary"][:, 1], first)
    _, state = run(module, draw(1, seed=3), dt=9.0, state=state)
    _, state = run(module, draw(1, seed=4), dt=1.0, state=state)  # the oldest summary makes room
    assert not (state["summary"] == first[:, None]).all(-1).any()


# Recurrent tokens: the guard.


def test_memory_tokens_never_see_what_is_made_of_them() -> None:
    """The tokens that become actions are read from the memory and not read by it (muVLA's memory-action guard)."""
    module = awake(make("recurrent_tokens"))
    assert isinstance(module, RecurrentTokens)
    out, state = run(module, draw(6))
    assert torch.autograd.grad(out.sum(), list(module.integrator.parameters()), retain_graph=True)
    energy = state["tokens"].square().sum()
    found = torch.autograd.grad(energy, list(module.integrator.parameters()), allow_unused=True)
    assert all(gradient is None for gradient in found)
    for parameter in module.integrator.parameters():
        torch.nn.init.normal_(parameter)
    assert torch.equal(run(module, draw(6))[1]["tokens"], state["tokens"])


def test_memory_tokens_stay_bounded() -> None:
    _, state = run(make("recurrent_tokens"), 100 * draw(300, rows=1))
    torch.testing.assert_close(state["tokens"].square().mean(-1).amax(), torch.tensor(1.0), atol=1e-2, rtol=0)


# Retrieval: search by similarity.


def test_the_segment_that_looks_like_now_answers() -> None:
    module = Retrieval(LAYOUT, capacity=8, seconds=0.0, top=2)
    tokens = draw(7)
    _, state = run(module, tokens)
    out, _ = module.step(state, tokens[:, 2], seconds(0.1))
    again = dict(state)
    again["going_key"] = state["keys"][:, 4]  # the newest first: tick 2
    shares = module.diagnostics(again, out)
    assert shares["attention"].argmax(1).tolist() == [4] * B
    torch.testing.assert_close(shares["age"][:, 4], seconds(0.4))
    assert ((shares["attention"] > 0).sum(1) == 2).all()
    awake(module)
    answer = module.step(state, tokens[:, 2], seconds(0.1))[0]
    spoilt = dict(state)
    spoilt["segments"] = state["segments"].clone()
    spoilt["segments"][:, 4] += 1
    assert not torch.equal(module.step(spoilt, tokens[:, 2], seconds(0.1))[0], answer)


@pytest.mark.parametrize(("ticks", "dt"), [(41, 0.1), (17, 0.25)])
def test_segments_are_as_long_at_any_rate(ticks: int, dt: float) -> None:
    module = Retrieval(LAYOUT, capacity=8, seconds=0.99, top=2)
    _, state = run(module, draw(ticks), dt)
    ended = int(state["used"][0].sum())
    spans = state["age"][0, : ended - 1].diff()
    assert ended == 3
    torch.testing.assert_close(spans, torch.full_like(spans, 1.0 + dt))


def test_a_segment_is_the_mean_of_its_observations_and_the_oldest_is_forgotten() -> None:
    module = Retrieval(LAYOUT, capacity=2, seconds=0.2, top=1)
    tokens = draw(9)
    _, state = run(module, tokens)  # three segments of three observations
    patches = LAYOUT.perceptual(tokens)
    torch.testing.assert_close(state["segments"][:, 0], patches[:, 6:].mean(1))
    torch.testing.assert_close(state["segments"][:, 1], patches[:, 3:6].mean(1))
    torch.testing.assert_close(state["age"], torch.tensor([0.1, 0.4]).expand(B, -1))


def test_more_than_there_are_cannot_be_read() -> None:
    with pytest.raises(RobomemError, match="top=9 segments cannot be read of capacity=8; set top <= capacity"):
        Retrieval(LAYOUT, capacity=8, top=9)
