"""Gates of a config: the comparison that decides them follows the verb that measures."""

from spark_eval.errors import ConfigError
from spark_eval.runs.sections import Config
from spark_eval.runtime import endings


def baseline_fault(config: Config) -> ConfigError | None:
    """Return the error INVALID_GATE if a gate has no baseline, neither its own nor that of ``compare``."""
    for gate in config.compare.checked(config.gates).gates:
        if gate.against_run is None and gate.against_model is None:
            hint = "give it against: {run, model}, or all gates compare.baseline"
            return ConfigError("INVALID_GATE", f"{gate} names no baseline; {hint}")
    return None


def comparison_of_gates(config: Config) -> str | None:
    """Return the verb that decides the gates; warn if a gate has no baseline yet."""
    if not config.gates_of_models:
        return None
    if (fault := baseline_fault(config)) is None:
        return "compare"
    endings.warn(f"its gates are not decided: {fault.message}; compare then decides them")
    return None
