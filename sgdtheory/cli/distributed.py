"""Flags with which a command runs in several processes at once, and how it joins and leaves them."""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NoReturn

from sgdtheory.cli.output import native_output_on_stderr, print_note


@dataclass(frozen=True, kw_only=True)
class DistributedFlags:
    """The flags of a command that several processes may run together."""

    GROUP: ClassVar[str] = "several processes"

    distributed: bool = False
    """Run as one process of several, started alike on every host: all their devices share the work."""
    coordinator: str | None = None
    """With --distributed: host:port of process 0; None: from the cluster's environment."""
    num_processes: int | None = None
    """With --distributed: number of processes."""
    process_id: int | None = None
    """With --distributed: this process, from 0."""

    @contextlib.contextmanager
    def joined(self) -> Iterator[bool]:
        """Join the other processes, if asked to; yield whether this is the one that prints."""
        cluster = self.coordinator, self.num_processes, self.process_id
        if not self.distributed:
            if any(value is not None for value in cluster):
                raise ValueError("--coordinator, --num-processes and --process-id need --distributed")
            yield True
            return
        if self.coordinator is not None and not re.fullmatch(r".+:\d+", self.coordinator):
            raise ValueError(f"coordinator must be HOST:PORT, for example localhost:1234, got {self.coordinator}")
        import jax

        with native_output_on_stderr():
            try:
                jax.distributed.initialize(*cluster)
            except (ValueError, RuntimeError) as error:
                raise ValueError(
                    f"distributed: {str(error).rstrip('.')}; give --coordinator, --num-processes and --process-id"
                ) from None
            yield jax.process_index() == 0

    def leave(self) -> NoReturn:
        """Exit after Ctrl-C, without waiting for processes that do not know of it."""
        if self.distributed:
            print_note("interrupted; stop the other processes too")
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(130)
        sys.exit(130)
