"""Sections of the config for linkage: what is reviewed, and the options of its verbs."""

from typing import Any

from pydantic import Field

from spark_eval.config.inputs import RunId, Source
from spark_eval.config.keys import Section, keyed
from spark_eval.linkage.plan import (
    LinkageOptions,
    LinkagePlan,
    SampleOptions,
    SamplePlan,
    make_linkage_plan,
    make_sample_plan,
)
from spark_eval.options import declared


class ReviewsSection(Source):
    """Labels of reviewed pairs, and the sample that they are of."""

    run: RunId | None = Field(
        default=None, description="published run of sample; null: that of this id, or of this config"
    )


@keyed(LinkageOptions)
class LinkageSection(Section):
    """Options of the evaluation of links."""

    def checked(self) -> LinkagePlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        options: Any = {name: getattr(self, name) for name in declared(LinkageOptions)}
        return make_linkage_plan(**options)


@keyed(SampleOptions)
class SampleSection(Section):
    """Strata and size of a sample for review."""

    def checked(self) -> SamplePlan:
        """Return the validated plan; raise ConfigError for an invalid option."""
        options: Any = {name: getattr(self, name) for name in declared(SampleOptions)}
        return make_sample_plan(**options)
