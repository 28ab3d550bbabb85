"""Tests the loop that continues after a loss, which hawser.ray, hawser.spark and hawser.dask share. The ranks are
processes of this machine."""

import multiprocessing
import os
import signal
import threading
import time

import pytest
from conftest import text_config

import hawser
from hawser import _elastic

STEPS, LOST_AT, EVERY = 40, 17, 5
processes = multiprocessing.get_context("spawn")


def rank_process(attempt, rank, address, answer):
    answer.send(_elastic.run_rank(attempt, rank, address))


def start(attempt):
    """A minimal framework that starts one process per rank."""
    address, answers = _elastic.free_address("127.0.0.1"), []
    for rank in range(attempt.ranks):
        answer, there = processes.Pipe(duplex=False)
        processes.Process(target=rank_process, args=(attempt, rank, address, there)).start()
        there.close()
        answers.append(answer)
    ended = []
    for rank, answer in enumerate(answers):
        try:
            ended.append(answer.recv())
        except EOFError:
            ended.append(_elastic.LostRank(f"rank {rank} has died"))
    for end in ended:
        if isinstance(end, _elastic.LostRank):
            raise end
    return ended


class KillOnce:
    """Kills rank 1 of the first attempt at a step."""

    def __init__(self, mark):
        self.mark = mark

    def __call__(self, engine, rank):
        if rank == 1 and not self.mark.exists():
            self.mark.touch()
            threading.Thread(target=self.kill_at, args=(engine,), daemon=True).start()

    def kill_at(self, engine):
        while engine.progress().step < LOST_AT:
            time.sleep(0.001)
        os.kill(os.getpid(), signal.SIGKILL)


def run(config, start=start, available=lambda: 2, ranks=2, min_ranks=None, setup=None, max_losses=3):
    return _elastic.train(start, available, config, ranks, min_ranks=min_ranks, setup=setup, callback=None,
                          trust_network=False, max_losses=max_losses)  # fmt: skip


@pytest.fixture
def config(text_file, tmp_path):
    checkpoint = {"path": str(tmp_path / "checkpoints"), "every": EVERY, "keep_last": 100}
    config = text_config(text_file, steps=STEPS, checkpoint=checkpoint)
    return {**config, "batch": {"micro_batch": 2, "global_batch": 8}, "mesh": {"dp_shard": 2}, "zero": {"stage": 2}}


@pytest.mark.parametrize("left", [2, 1])
def test_a_killed_rank_ends_in_the_bits_of_a_direct_resume(config, tmp_path, left):
    result = run(config, available=lambda: left, min_ranks=1, setup=KillOnce(tmp_path / "killed"))
    assert (result["step"], result["ranks"]) == (STEPS, left)
    assert result["losses"] == ["rank 1 has died"]
    assert result["began"] >= LOST_AT - EVERY

    direct = hawser.Config(config).fit_ranks(left).set("/checkpoint/path", str(tmp_path / "direct"))
    with hawser.Engine(direct, ranks=left) as engine:
        engine.load(tmp_path / "checkpoints" / f"step-{result['began']}")
        engine.train()
        assert engine.progress().loss == result["loss"]
    tensors = [
        {path.name: path.read_bytes() for path in (tmp_path / folder / f"step-{STEPS}").glob("*.safetensors")}
        for folder in ("checkpoints", "direct")
    ]
    assert tensors[0] and tensors[0] == tensors[1]


def test_losses_without_a_new_checkpoint_end_the_job(config):
    attempts = []

    def lose(attempt):
        attempts.append(attempt)
        raise _elastic.LostRank("the cable is out")

    with pytest.raises(hawser.Unavailable, match="ranks were lost 3 times .* the cable is out"):
        run(config, start=lose)
    assert len({attempt.job for attempt in attempts}) == len({attempt.secret for attempt in attempts}) == 3


def test_ranks_that_heard_of_a_loss_are_a_loss(config):
    ends = [[_elastic.Ended(hawser.Unavailable("rank 1 is gone"), None)], [_elastic.Ended(None, {"step": STEPS})]]
    assert run(config, start=lambda attempt: ends.pop(0))["losses"] == ["rank 1 is gone"]


def test_an_error_that_would_come_again_is_raised(config, tmp_path):
    config["data"]["path"] = str(tmp_path / "nowhere")
    with pytest.raises(hawser.NotFound, match="nowhere"):
        run(config)


def test_arguments(config):
    with pytest.raises(ValueError, match="min_ranks is 3; give 1 to 2"):
        run(config, min_ranks=3)
    with pytest.raises(hawser.ConfigInvalid):  # three ranks cannot share eight rows
        run(config, ranks=3)
    del config["checkpoint"]
    with pytest.raises(ValueError, match="/checkpoint/path"):
        run(config)
