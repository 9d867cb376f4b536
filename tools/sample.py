"""Of many tests, a few that show each kind: for builds whose processes are slow (merge_tests, programs_of)."""
import collections
import re

# Words in tests' names that say in which mode, by which path, or with how many processes one kind is shown.
WORD = r"seq|par|parsync|everything|direct\d?|verbs|hybrid|c|cpp"
VARIANT = re.compile(rf"[._](?:{WORD}|\d+)(?=[._]|$)")


def kind_of(name):
    """What a test shows: its name up to the first such word."""
    return VARIANT.split(name)[0]


def words_of(name):
    """Both paths in one job (hybrid) run no code that each alone does not."""
    return set(re.findall(rf"(?<=[._])(?:{WORD})(?=[._]|$)", name)) - {"c", "cpp", "hybrid"}


def alone(name):
    """Of one process."""
    return re.search(r"[._]1(?=[._]|$)", name) is not None


def takes_minutes(labels, seconds):
    """A test that says so by its time limit, and is neither quick nor about a device's personality; an explorer, whose
    one thread steps through millions of states that a sanitizer has nothing to say of."""
    return "explorer" in labels or seconds >= 200 and not {"quick", "personality"} & set(labels)


def sampled(tests):
    """For each kind as few tests as show it in each mode and by each path that its tests have, but one for a mistake
    that a check in front of all paths finds (_bad_); none of those that take minutes.
    tests: name: (labels, time limit in seconds)."""
    kinds = {}
    for name, (labels, seconds) in tests.items():
        if not takes_minutes(labels, seconds):
            kinds.setdefault(kind_of(name), []).append(name)
    taken = set()
    for alike in kinds.values():
        count = collections.Counter(word for name in alike for word in words_of(name))
        missing = set() if "_bad_" in alike[0] else set(count)
        while True:
            best = max(alike, key=lambda name: (sum(1 + 1 / count[word] for word in words_of(name) & missing),
                                                not alone(name), -len(name)))
            taken.add(best)
            missing -= words_of(best)
            if not missing:
                break
    return taken
