"""Comms: the ranks of this process, and their connections to all other ranks."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Protocol

from . import _native
from ._handle import Handle


class Transport(Protocol):
    """The program's own connection to the other ranks, for Comm.host. Derive from this class, or just have its
    methods.

    Messages between two ranks must arrive in the order and with the sizes in which they were sent; none is empty. The
    methods run on threads of the library, one at a time; only abort may run while another method runs. They must not
    call the library. If a method raises, the rank fails: with Timeout for a TimeoutError, with the code of a
    hawser.Error, and with Unavailable and the text of the exception for any other.

    A class may also have exchange(rank, sent, received, timeout_seconds), which sends and receives at the same time, and
    abort(code, message), which means that this rank has failed and its calls must return at once.
    """

    def send(self, to_rank: int, data: bytes, timeout_seconds: float) -> None:
        """Sends all bytes of `data`. For 512 bytes or fewer it must not wait for the receiver."""

    def recv(self, from_rank: int, data: memoryview, timeout_seconds: float) -> None:
        """Fills `data` with bytes from rank `from_rank`."""


Secret = bytes | Callable[[], bytes] | None


def _text(text: str | bytes | os.PathLike[str] | None) -> bytes | None:
    return None if text is None else os.fsencode(text)


def _address(
    rank: int,
    world_size: int,
    address: str | None,
    host: str | None,
    network_interface: str | None,
    timeout: float,
    silence: float,
    job: str | None,
    secret_file: str | os.PathLike[str] | None,
    secret: Secret,
    trust: bool,
    shared_memory: bool,
) -> tuple[Any, ...]:
    return (
        rank,
        world_size,
        _text(address),
        _text(host),
        _text(network_interface),
        timeout,
        silence,
        _text(job),
        _text(secret_file),
        secret() if callable(secret) else secret,
        int(trust),
        shared_memory,
    )


class Comm(Handle):
    """Ranks for Engine(config, comm=...). Comm.local, address, env and host make a comm. It serves one engine at a
    time.

    If one rank fails, all ranks fail: every call that waits for it raises the same exception, with a message that
    names the rank. Local ranks can then serve a new engine; other comms cannot be used again.
    """

    _destroy = staticmethod(_native.hws_comm_destroy)

    @classmethod
    def _of(cls, handle: int) -> Comm:
        comm = cls.__new__(cls)
        comm._own(handle)
        return comm

    @classmethod
    def local(cls, ranks: int) -> Comm:
        """Makes ranks (1 to 4,096) that are threads of this process."""
        return cls._of(_native.hws_comm_create_local(ranks))

    @classmethod
    def address(
        cls,
        rank: int,
        world_size: int,
        address: str,
        *,
        host: str | None = None,
        network_interface: str | None = None,
        timeout_seconds: float = 0,
        silence_seconds: float = 0,
        job: str | None = None,
        secret_file: str | os.PathLike[str] | None = None,
        secret: Secret = None,
        trust_network: bool = False,
        shared_memory: bool = True,
    ) -> Comm:
        """Makes one rank of a job of processes over TCP; returns when all ranks have connected.

        address: "host:port" on which rank 0 listens. host, network_interface: address on which this rank listens.
        timeout_seconds: time for all ranks to arrive (0: 60). silence_seconds: a process without a heartbeat for this
        long counts as lost (0: 10). job: must be equal on all ranks. secret_file, or secret (32 to 4,096 bytes, or a
        callable that returns them): only processes with the same secret can join. trust_network: allow an address
        beyond the loopback without a secret. shared_memory: exchange data with processes on the same machine
        through shared memory; False: over TCP, as with other machines.

        Raises Timeout with the missing ranks, Permission for a different secret, Unavailable, and others.
        """
        given = _address(rank, world_size, address, host, network_interface, timeout_seconds, silence_seconds, job,
                         secret_file, secret, trust_network, shared_memory)  # fmt: skip
        return cls._of(_native.hws_comm_create_address(given))

    @classmethod
    def env(
        cls,
        *,
        address: str | None = None,
        host: str | None = None,
        network_interface: str | None = None,
        timeout_seconds: float = 0,
        silence_seconds: float = 0,
        job: str | None = None,
        secret_file: str | os.PathLike[str] | None = None,
        secret: Secret = None,
        trust_network: bool = False,
        shared_memory: bool = True,
    ) -> Comm:
        """Makes one rank like address(), with rank, world size and address from the variables of torchrun, mpirun,
        srun, PMI or Kubernetes.

        Arguments override the variables; job is appended to the launcher's job name. Raises FailedPrecondition if
        there is no launcher, or a variable is missing.
        """
        given = _address(0, 0, address, host, network_interface, timeout_seconds, silence_seconds, job, secret_file,
                         secret, trust_network, shared_memory)  # fmt: skip
        return cls._of(_native.hws_comm_create_env(given))

    @classmethod
    def host(cls, transport: Transport, rank: int, world_size: int) -> Comm:
        """Makes one rank over the program's own transport."""
        for name in ("send", "recv"):
            if not callable(getattr(transport, name, None)):
                raise TypeError(f"a transport needs the methods send and recv; {type(transport).__name__} lacks {name}")
        return cls._of(_native.hws_comm_create_host_object(transport, rank, world_size))

    def info(self) -> dict[str, Any]:
        """Returns kind ("local", "address", "env" or "host"), world_size, local_ranks, and for "env" the
        environment."""
        return json.loads(_native.hws_comm_info(self._open))

    def __repr__(self) -> str:
        return "Comm(closed)" if self.closed else f"Comm({self.info()!r})"


def read_env() -> dict[str, Any]:
    """Returns the settings that Comm.env would use, without connecting: "launcher", "rank", "world_size", "address"
    and the variables read."""
    return json.loads(_native.hws_comm_read_env())


__all__ = ["Comm", "Transport", "read_env"]
