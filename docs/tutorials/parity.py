# %% [markdown]
# # A picture through a noisy channel
#
# A parity-check code adds bits to a message so that errors can be found and corrected. This page
# sends a small picture through a channel that flips one bit in twenty, and gets it back intact.
#
# ## The question
#
# A message of zeros and ones crosses a bad line. Some of its bits arrive flipped, and nobody
# knows which. How can the receiver tell?
#
# ## A code
#
# The sender adds bits such that certain sums are even. Each of these sums is a check, a row of
# the parity-check matrix. If a received word breaks a check, something was flipped; which bits it
# was follows from all checks together. We draw a matrix in which every bit takes part in three
# checks and every check has six bits, as Gallager did in 1962.

# %%
import matplotlib.pyplot as plt
import numpy as np

from boolweave.decoding import ParityCheckCode, bsc_llr

rng = np.random.default_rng(0)
checks = np.zeros((384, 768), dtype=np.uint8)
for layer in range(3):  # each layer has every bit in one of its 128 checks
    for check, bits in enumerate(rng.permutation(768).reshape(128, 6)):
        checks[128 * layer + check, bits] = 1

code = ParityCheckCode(checks)
print(code)
# > ParityCheckCode(n=768, k=386, n_checks=384)

# %% [markdown]
# A word has 768 bits, of which 386 carry the message. So about half of what is sent is there for
# protection.
#
# ## A message
#
# The message is a drawing of 48 by 64 points.

# %%
down, right = np.mgrid[-1:1:48j, -1.33:1.33:64j]
face = np.hypot(right, down) < 0.9
eyes = np.hypot(np.abs(right) - 0.33, down + 0.3) < 0.13
mouth = (np.abs(np.hypot(right, down) - 0.55) < 0.07) & (down > 0.15)
drawing = (face & ~eyes & ~mouth).astype(np.uint8)

n_words = -(-drawing.size // code.k)
message = np.zeros((n_words, code.k), dtype=np.uint8)
message.flat[: drawing.size] = drawing.ravel()
sent = code.encode(message)
print("points:", drawing.size, " words:", n_words, " bits sent:", sent.size)
# > points: 3072  words: 8  bits sent: 6144

# %% [markdown]
# ## The channel
#
# One bit in twenty is flipped. The receiver knows this rate, and `bsc_llr` turns each bit into a
# log-likelihood ratio, which says how strongly it speaks for a 0. The decoder then passes
# messages between bits and checks until all checks are satisfied.

# %%
FLIP = 0.05
received = sent ^ (rng.random(sent.shape) < FLIP)
print("bits flipped:", int(np.sum(received != sent)))

decoded = code.decode(bsc_llr(received, flip=FLIP))
print("bits wrong after decoding:", int(np.sum(decoded.bits != sent)))
print("words that meet all checks:", int(decoded.converged.sum()), "of", n_words)
print("iterations of each word:", decoded.n_iter.tolist())
# > bits flipped: 305
# > bits wrong after decoding: 0
# > words that meet all checks: 8 of 8
# > iterations of each word: [9, 5, 7, 6, 8, 6, 5, 6]

# %% [markdown]
# Hundreds of bits were flipped, and every one of them was corrected. Each word took between five and
# nine iterations. The message itself stands in some of the positions of a word, which
# `information_positions` lists, so that we can draw it at every stage.

# %% tags=["gallery"]
where = code.information_positions
pictures = {
    "sent": sent,
    "received": received,
    "after one iteration": code.decode(bsc_llr(received, flip=FLIP), max_iter=1).bits,
    "decoded": decoded.bits,
}
figure, axes = plt.subplots(1, 4, figsize=(11, 2.6), layout="constrained")
for panel, (title, words) in zip(axes, pictures.items()):
    points = words[:, where].ravel()[: drawing.size].reshape(drawing.shape)
    panel.imshow(1 - points, cmap="gray", interpolation="nearest")
    panel.set_title(f"{title}: {np.sum(points != drawing)} wrong points", fontsize=9)
    panel.axis("off")
plt.show()

# %% [markdown]
# ## Where it ends
#
# How much noise can this code take? We send 300 words at several rates.

# %%
rates = [0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.10]
words = code.encode(rng.integers(0, 2, size=(300, code.k), dtype=np.uint8))
failed = []
for rate in rates:
    noisy = words ^ (rng.random(words.shape) < rate)
    answer = code.decode(bsc_llr(noisy, flip=rate)).bits
    failed.append(np.mean(np.any(answer != words, axis=1)))
    print(f"{rate:.0%} flipped: {failed[-1]:.1%} of the words are wrong")

figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(rates, failed, marker="o", color="#1f3a5f")
axes.xaxis.set_major_formatter("{x:.0%}")
axes.yaxis.set_major_formatter("{x:.0%}")
axes.set_xlabel("share of the bits that are flipped")
axes.set_title("Words that are not decoded correctly", loc="left")
axes.grid(alpha=0.3)
plt.show()
# > 3% flipped: 0.0% of the words are wrong
# > 4% flipped: 0.0% of the words are wrong
# > 5% flipped: 0.0% of the words are wrong
# > 6% flipped: 4.7% of the words are wrong
# > 7% flipped: 13.7% of the words are wrong
# > 8% flipped: 44.7% of the words are wrong
# > 9% flipped: 78.7% of the words are wrong
# > 10% flipped: 95.0% of the words are wrong

# %% [markdown]
# ## What it means
#
# Up to 5% of flips, none of the 300 words is lost. Then the code reaches its limit: at 8% nearly
# half of the words fail, and at 10% nearly all of them do. Such a sharp edge is typical of these
# codes, and it becomes sharper for longer words.
#
# Decoding is the same problem as factorization, with one factor known and XOR in place of OR: the
# parity-check matrix is known, and the bits are what is looked for.
#
# ## What to read next
#
# - [Decoding](../decoding.md) has other channels, schedules and files with codes.
# - [Who is ill? Pooled tests](pools.md) is the same problem with OR.
