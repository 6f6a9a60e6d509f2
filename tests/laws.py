"""Laws: what must hold for each of many things, as one test that lists all those that break it."""


def every(things, name=str):
    """Make a law, a function that asserts something of one thing, a test of all things, each of which has a `name`."""

    def test_of(law):
        def test():
            found = broken(law, things, name)
            assert not found, "\n".join(f"{name}: {words}" for name, words in found.items())

        test.__name__, test.__doc__, test.__module__ = law.__name__, law.__doc__, law.__module__
        test.law = law
        return test

    return test_of


def broken(law, things, name=str):
    """The things that break a law, and how."""
    found = {}
    for thing in things:
        try:
            law(thing)
        except AssertionError as error:
            found[name(thing)] = str(error)
    return found
