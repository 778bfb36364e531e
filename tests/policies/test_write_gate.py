"""The gate in front of a memory: what it keeps, updates and discards."""

import torch
from memories import LAYOUT, B, awake, draw, run, seconds

from robomem.policies.memory.bank import Bank
from robomem.policies.memory.base import State
from robomem.policies.memory.write_gate import DISCARD, KEEP, UPDATE, WriteGate


def gated(choice: int) -> WriteGate:
    """A bank behind a gate that always chooses the same."""
    torch.manual_seed(0)
    gate = WriteGate(LAYOUT, inner=Bank)
    with torch.no_grad():
        gate.choose.bias.copy_(20 * torch.eye(3)[choice])
    awake(gate.inner)
    return gate


def held(state: State) -> State:
    return {name.removeprefix("held."): value for name, value in state.items() if name.startswith("held.")}


def test_kept_observations_are_those_of_the_module_alone() -> None:
    gate = gated(KEEP)
    out, state = run(gate, draw(9))
    expected_out, expected = run(gate.inner, draw(9))
    torch.testing.assert_close(out, expected_out)
    for name, value in held(state).items():
        torch.testing.assert_close(value, expected[name])


def test_discarded_observations_leave_no_trace() -> None:
    gate = gated(DISCARD)
    tokens = draw(9)
    out, state = run(gate, tokens)
    assert not any(value.any() for value in held(state).values())
    alone = torch.stack([gate.inner.step(gate.inner.init(B), token, seconds(0.1))[0] for token in tokens.unbind(1)], 1)
    torch.testing.assert_close(out, alone)
    _, state = run(gated(KEEP), tokens[:, :1])
    _, state = run(gate, tokens[:, 1:], dt=0.25, state=state)
    assert torch.equal(held(state)["perceptual"][:, 0], LAYOUT.perceptual(tokens)[:, 0])
    torch.testing.assert_close(held(state)["age"], torch.tensor([2.0, 0.0, 0.0, 0.0]).expand(B, -1))


def test_an_update_writes_the_newest_entry_anew() -> None:
    tokens = draw(9)
    _, state = run(gated(KEEP), tokens[:, :2])
    _, state = run(gated(UPDATE), tokens[:, 2:], state=state)
    patches = LAYOUT.perceptual(tokens)
    assert held(state)["count"].tolist() == [[1.0, 1.0, 0.0, 0.0]] * B
    assert torch.equal(held(state)["perceptual"][:, :2], patches[:, [0, 8]])
    torch.testing.assert_close(held(state)["age"][:, :2], torch.tensor([0.8, 0.0]).expand(B, -1))


def test_a_gate_that_knows_the_cue_recalls_it_after_a_hundred_distractors() -> None:
    """Keeps what is marked in the first channel of the cognition token and discards the rest."""
    gate = gated(DISCARD)
    with torch.no_grad():
        for parameter in gate.decide.parameters():
            parameter.zero_()
        gate.decide.weight[0, gate.size - LAYOUT.channels] = 1.0
        gate.choose.weight[KEEP, 0] = 100.0
        tokens = draw(101)
        tokens[:, :, -1, 0] = -9
        tokens[:, 0, -1, 0] = 9
        _, state = run(gate, tokens, dt=5.0)
    assert held(state)["count"].tolist() == [[1.0, 0.0, 0.0, 0.0]] * B
    assert torch.equal(held(state)["perceptual"][:, 0], LAYOUT.perceptual(tokens)[:, 0])
    torch.testing.assert_close(held(state)["age"][:, 0], seconds(500.0))


def test_choices_are_hard_and_still_learned() -> None:
    gate = gated(KEEP)
    with torch.no_grad():
        gate.choose.bias.zero_()  # undecided
    out, _ = run(gate, draw(9))
    out.square().sum().backward()
    for parameter in (gate.decide.weight, gate.choose.weight, gate.pool.queries):
        assert parameter.grad is not None
        assert parameter.grad.abs().max() > 1e-9
