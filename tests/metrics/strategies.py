"""Users for hypothesis: short and empty lists, no truth, no hit, more and fewer relevant items than k."""

from hypothesis import strategies as st
from users import User

from spark_eval.conventions import ApDenominator, Conventions, Gain

ITEMS = range(16)

cutoffs = st.integers(1, 12)
relevances = st.one_of(st.integers(1, 5).map(float), st.floats(1e-3, 10))
recommended = st.lists(st.sampled_from(ITEMS), max_size=len(ITEMS), unique=True)
truths = st.dictionaries(st.sampled_from(ITEMS), relevances)
users = st.builds(User, recommended, truths)
batches = st.lists(users, min_size=1, max_size=6)

# Every choice that can change a kernel's number.
CONVENTIONS = [Conventions(gain, denominator) for gain in Gain for denominator in ApDenominator]
conventions_of_any_kind = st.sampled_from(CONVENTIONS)
gains = st.sampled_from([Conventions(gain=gain) for gain in Gain])
