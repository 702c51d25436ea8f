"""The sections ``compare`` and ``gates`` of the config: which models are compared, and what may ship."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from spark_eval.comparing.gates import Gate, GateOptions, check_models
from spark_eval.comparing.options import CompareOptions, ComparePlan, make_compare_plan
from spark_eval.config.keys import Section, keyed
from spark_eval.names import check_run_id
from spark_eval.options import declared

RunId = Annotated[str, AfterValidator(check_run_id)]


class Baseline(Section):
    """What is compared with: a run, by default the candidate's own; a model, by default of the same name."""

    run: RunId | None = Field(default=None, description="a published run; null: the candidate's own")
    model: str | None = Field(default=None, description="one of its models; null: that of the same name")


@keyed(GateOptions)
class GateSection(Section):
    """A model may not fall behind its baseline in a metric by more than ``max_drop``."""

    metric: str = Field(description="a metric that both runs have")
    max_drop: float = Field(description="how far the model may fall behind")
    against: Baseline = Field(default=Baseline(), description="run and model; null: the baseline of compare")


@keyed(CompareOptions)
class CompareSection(Section):
    """The baseline, and what is compared with it, and how."""

    baseline: Baseline = Field(default=Baseline(), description="what models are compared with: run and model")

    def checked(self, gates: Sequence[GateSection] = ()) -> ComparePlan:
        """Return the checked plan; raise ConfigError with the nearest allowed choice.

        Gates that name no baseline have that of this section.
        """
        options: Any = {name: getattr(self, name) for name in declared(CompareOptions)}
        plan = make_compare_plan([gate.model_dump(exclude_unset=True) for gate in gates], **options)
        return replace(plan, gates=tuple(map(self.against, plan.gates)))

    def against(self, gate: Gate) -> Gate:
        """Return a gate with its baseline."""
        if gate.against_run is None and gate.against_model is None:
            gate = replace(gate, against_run=self.baseline.run, against_model=self.baseline.model)
        check_models(gate)
        return gate
