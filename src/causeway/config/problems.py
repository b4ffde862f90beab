"""Problems of one file, gathered so that a person sees them all at once."""

from __future__ import annotations

from dataclasses import dataclass, field

from causeway.errors import ConfigError


@dataclass(slots=True)
class Problems:
    """What is wrong with `subject`, one line each, in the order found, each once."""

    subject: str
    lines: list[str] = field(default_factory=list)

    def add(self, line: str) -> None:
        if line not in self.lines:
            self.lines.append(line)

    def raise_if_any(self) -> None:
        """Raises one ConfigError: the only problem, or a line for each."""
        if not self.lines:
            return
        if len(self.lines) == 1:
            raise ConfigError("use", self.subject, self.lines[0])
        listed = "".join(f"\n  {line}" for line in self.lines)
        raise ConfigError("use", self.subject, f"{len(self.lines)} problems{listed}")
