"""Trains with ranks that are tasks of Spark.

    import hawser.spark
    hawser.spark.write_tokens(frame, "tokens", "/shared/tokens.u32", separator=0)
    result = hawser.spark.train(session, config, ranks=4)

Each rank is a task of a barrier stage. Spark does not run a lost barrier stage again, but `train` does, from the
newest checkpoint. Needs the package pyspark.
"""

from __future__ import annotations

import array
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-not-found,import-untyped,unused-ignore]
from pyspark import BarrierTaskContext  # type: ignore[import-not-found,import-untyped,unused-ignore]
from pyspark.sql import DataFrame, SparkSession  # type: ignore[import-not-found,import-untyped,unused-ignore]

from . import _elastic
from .checkpoints import Path
from .config import Config


def write_tokens(frame: DataFrame, column: str, path: Path, *, separator: int | None = None) -> int:
    """Writes a column of token arrays to a file for /data ("format": "tokens", "token_type": "u32"), in the order of the
    rows, and returns the number of tokens. separator: a token written after each row, for /data/separator. The driver
    reads the frame one partition at a time. An existing file is replaced once the new file is complete."""
    count, fresh = 0, os.fsdecode(path) + ".new"
    with open(fresh, "wb") as file:
        for row in frame.select(column).toLocalIterator():
            tokens = array.array("I", row[0] if separator is None else [*row[0], separator])
            if sys.byteorder == "big":
                tokens.byteswap()
            tokens.tofile(file)
            count += len(tokens)
    os.replace(fresh, path)
    return count


def _run(attempt: _elastic.Attempt) -> Iterator[_elastic.Ended]:
    """Runs a task of the barrier stage as the rank of its partition."""
    context = BarrierTaskContext.get()
    rank = context.partitionId()
    host = context.getTaskInfos()[rank].address.rsplit(":", 1)[0]
    address = context.allGather(_elastic.free_address(host) if rank == 0 else "")[0]
    yield _elastic.run_rank(attempt, rank, address)


def train(
    session: SparkSession,
    config: Config | Mapping[str, Any] | str | os.PathLike[str],
    ranks: int,
    *,
    min_ranks: int | None = None,
    setup: _elastic.Setup | None = None,
    callback: _elastic.Callback | None = None,
    trust_network: bool = False,
    max_losses: int = 10,
) -> dict[str, Any]:
    """Trains the config to its end on `ranks` ranks, and continues after the loss of ranks. Returns a dict: "step",
    "loss" (of the last step), "ranks" (of the last attempt), "began" (the step from which that attempt continued) and
    "losses" (a description of each loss).

    config: all executors must see the folders of its data and of /checkpoint/path. After a loss, training continues
    with as many ranks as the session has cores for (by spark.task.cpus), at least min_ranks (None: ranks) and at most
    ranks, with the same rows in each step. Results are bit-identical to a run that stopped at the checkpoint and
    resumed on these ranks.

    setup(engine, rank) runs in each rank before it trains, for example to set a source. callback(record) runs in rank
    0 after each step, like the callback of Engine.train. Both are sent to the executors.

    trust_network: connect without a secret. max_losses: the number of losses in a row, without a new checkpoint, that
    ends the job.

    Raises ConfigInvalid and other errors that a retry would repeat, Unavailable after too many losses.
    """
    spark = session.sparkContext

    def available() -> int:
        return spark.defaultParallelism // int(spark.getConf().get("spark.task.cpus", "1"))

    def start(attempt: _elastic.Attempt) -> list[_elastic.Ended]:
        stage = spark.parallelize(range(attempt.ranks), attempt.ranks).barrier()
        try:
            return stage.mapPartitions(lambda rows: _run(attempt)).collect()
        except Py4JJavaError as error:
            text = str(error.java_exception.getMessage())
            if "PythonException" in text:  # setup or callback raised, or hawser is not installed there
                raise
            raise _elastic.LostRank(text.splitlines()[0]) from error

    return _elastic.train(start, available, config, ranks, min_ranks=min_ranks, setup=setup, callback=callback,
                          trust_network=trust_network, max_losses=max_losses)  # fmt: skip


__all__ = ["train", "write_tokens"]
