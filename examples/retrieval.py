"""Generative retrieval: a search with wide beams among the codes of 100,000 items.

    python examples/retrieval.py

Each item has four codes, which say more and more exactly where it lies (residual quantization).  A decoder writes codes
for a user, one after the other, and `AllowedTokens` keeps it to those of items.  How many of the ten likeliest items a
search finds depends on the width of its beams, so retrieval takes tens to hundreds of them, where translation takes
five.

The items are random, and the decoder is no network: it likes codes by how near they bring it to what the user wants.
So the likeliest items can be found by looking at all of them, to see what the beams miss.
"""

from dataclasses import dataclass
from time import perf_counter

import numpy as np

import seqformats as sf

ITEMS, WIDTH, LEVELS, CODES = 100_000, 16, 4, 256
SHARPNESS = 1.0
BEST = 10


@dataclass(frozen=True)
class Catalogue:
    """Items, and the codes that stand for them."""

    books: np.ndarray  # (LEVELS, CODES, WIDTH): where each code lies, from where the ones before it have led
    codes: np.ndarray  # (codes, LEVELS): what there is, each once
    items: sf.Ragged  # which items have them
    trie: sf.Trie


def catalogue(items: np.ndarray, levels: int = LEVELS, codes: int = CODES, seed: int = 0) -> Catalogue:
    """Codes for items ``(items, width)``: at each level the nearest of some that were drawn, for what is left."""
    rng = np.random.default_rng(seed)
    books, found, left = [], [], items
    for _ in range(levels):
        book = left[rng.choice(len(left), codes, replace=False)]
        nearest = likings(left, book).argmax(1)
        books.append(book)
        found.append(nearest)
        left = left - book[nearest]
    every, of = np.unique(np.stack(found, 1), axis=0, return_inverse=True)
    same = sf.Ragged(np.argsort(of.reshape(-1), kind="stable"), np.bincount(of.reshape(-1), minlength=len(every)))
    return Catalogue(np.stack(books), every, same, sf.Trie(every))


def likings(wanted: np.ndarray, book: np.ndarray) -> np.ndarray:
    """How near each code comes to what is wanted, ``(rows, codes)``: less their squared distance, but for its first
    term, which is the same for all."""
    return 2 * wanted @ book.T - (book * book).sum(1)


def recommend(
    users: np.ndarray, of: Catalogue, beam_size: int, n_best: int = BEST, sharpness: float = SHARPNESS
) -> sf.BeamResult:
    """The likeliest codes for each user, best first."""

    def step(state: sf.BeamState) -> tuple[np.ndarray, np.ndarray]:
        left = state.memory  # what is wanted beside the codes so far
        if state.t:
            left = left - of.books[state.t - 1][state.tokens]
        return sharpness * likings(left, of.books[state.t]), left

    levels = len(of.books)
    return sf.beam_search(
        step,
        users,
        start=0,
        end=(),
        beam_size=beam_size,
        n_best=n_best,
        max_new_tokens=levels,
        constraints=[sf.AllowedTokens(of.trie)],
    )


def scores_of_all(user: np.ndarray, of: Catalogue, sharpness: float = SHARPNESS) -> np.ndarray:
    """The log-probability of all codes that there are, one by one."""
    found, left = np.zeros(len(of.codes)), np.broadcast_to(user, (len(of.codes), len(user)))
    for book, codes in zip(of.books, of.codes.T, strict=True):
        liked = sharpness * likings(left, book)
        found += np.take_along_axis(liked, codes[:, None], 1)[:, 0] - np.logaddexp.reduce(liked, axis=1)
        left = left - book[codes]
    return found


def places(found: sf.BeamResult, of: Catalogue) -> sf.Ragged:
    """Which codes of the catalogue each user got, as places in it."""
    levels = len(of.books)
    base = int(of.codes.max(initial=0)) + 1
    weights = base ** np.arange(levels - 1, -1, -1)
    numbers = found.tokens.data.reshape(-1, levels) @ weights
    return sf.Ragged(np.searchsorted(of.codes @ weights, numbers), np.diff(found.tokens.lod[0]))


def main() -> None:
    rng = np.random.default_rng(1)
    centres = rng.standard_normal((500, WIDTH)).astype(np.float32)
    items = centres[rng.integers(0, len(centres), ITEMS)] + rng.standard_normal((ITEMS, WIDTH)).astype(np.float32) / 2
    begun = perf_counter()
    shop = catalogue(items)
    print(f"{ITEMS:,} items have {len(shop.codes):,} codes; made in {perf_counter() - begun:.1f} s.")
    users = items[rng.integers(0, ITEMS, 8)] + rng.standard_normal((8, WIDTH)).astype(np.float32) / 4
    best = [set(np.argsort(-scores_of_all(user, shop), kind="stable")[:BEST].tolist()) for user in users]
    recommend(users, shop, 10)  # loads what there is to load
    for beam_size in (10, 50, 200):
        begun = perf_counter()
        found = recommend(users, shop, beam_size)
        took = perf_counter() - begun
        hits = [len(best[i] & set(row.tolist())) for i, row in enumerate(places(found, shop).sequences())]
        part = np.mean(hits) / BEST
        print(f"{beam_size:3} beams: {part:4.0%} of the {BEST} likeliest, {1000 * took:.1f} ms for {len(users)} users.")
    first = places(found, shop).sequences()[0]
    print("For the first user, items", shop.items[first[:3]].data.tolist())


if __name__ == "__main__":
    main()
