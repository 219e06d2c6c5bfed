"""Scenarios as they are written in `scenarios/*.txt`; the steps are told in `player.py`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

SCENARIOS = Path(__file__).parent / "scenarios"
CONFIGS = Path(__file__).parent / "configs"
# What a SIGKILL must not take has to be synced by the genuine server too, which syncs every two
# minutes unless told otherwise.
ALWAYS_SYNCED = "always_synced"
INTERRUPTED = ("SIGTERM", "SIGKILL")


@dataclass
class Scenario:
    """A title and its steps."""

    title: str
    steps: list[str] = field(default_factory=list)
    deviates: str = ""
    config: str = ""

    @property
    def restarts(self) -> bool:
        """Tell whether servers are ended on the way."""
        verbs = ("restart", "kill", "farewell", "interrupt")
        return any(step.split()[0] in verbs for step in self.steps)

    @property
    def config_text(self) -> str:
        """The configuration both servers start with, empty for none."""
        return (CONFIGS / f"{self.config}.conf").read_text() if self.config else ""

    def variants(self) -> list[Scenario]:
        """Return the scenario without its `interrupt` line, and once with each signal there."""
        if "interrupt" not in self.steps:
            return [self]
        plain = replace(self, steps=[step for step in self.steps if step != "interrupt"])
        interrupted = [
            replace(
                self,
                title=f"{self.title} / {signal}",
                steps=[f"{s} {signal}" if s == "interrupt" else s for s in self.steps],
                config=self.config or (ALWAYS_SYNCED if signal == "SIGKILL" else ""),
            )
            for signal in INTERRUPTED
        ]
        return [plain, *interrupted]


def read_scenarios(path: Path) -> list[Scenario]:
    """Return the scenarios of one file, with their variants."""
    scenarios: list[Scenario] = []
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            scenarios.append(Scenario(f"{path.stem}: {line[3:].strip()}"))
        elif line.startswith("deviates because "):
            scenarios[-1].deviates = line.removeprefix("deviates because ").strip()
        elif line.startswith("config "):
            scenarios[-1].config = line.removeprefix("config ").strip()
        elif line.strip() and not line.startswith("#"):
            scenarios[-1].steps.append(line.strip())
    return [variant for scenario in scenarios for variant in scenario.variants()]


def is_supported(path: Path) -> bool:
    """Tell whether the scenarios of a file are played."""
    return not path.stem.startswith("unsupported_")
