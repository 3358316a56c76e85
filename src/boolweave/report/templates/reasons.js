// The explanation of an entry: in words, and for a completion as parts of its log-odds.
const known = new Map((data.reasons || []).map((one) => [`${one.row} ${one.column}`, one]));
const together = (i, j) => {
  if (!rowLines.factors) return [];
  const columns = new Set(columnLines.factors[j]);
  return rowLines.factors[i].filter((k) => columns.has(k));
};

// Count the ones among the observed entries of a line in a factor; null if not all are drawn.
function onesInFactor(k, number, isRow) {
  if (data.grid.summarized || data.grid.sampled) return null;
  const [height, width] = data.grid.shape, runs = data.grid.tiles[k][isRow ? "columns" : "rows"];
  if (number >= (isRow ? height : width)) return null;
  let ones = 0, seen = 0;
  for (const [first, last] of runs) for (let at = first; at <= last; at++) {
    const value = matrix.observed[isRow ? number * width + at : at * width + number];
    if (value !== NOTHING) { seen++; ones += value === FULL; }
  }
  return [ones, seen];
}

function factorSentences(i, j) {
  const both = together(i, j), sentences = [];
  for (const k of both) {
    const f = data.factors[k];
    sentences.push(`Both belong to ${nameOf(k)}: ${several(f.n_rows, data.nouns.row, data.nouns.rows)} (${some(f.rows, f.n_rows)}) with ${several(f.n_columns, data.nouns.column, data.nouns.columns)} (${some(f.columns, f.n_columns)}).`);
    const own = onesInFactor(k, i, true), other = onesInFactor(k, j, false);
    if (own && other) sentences.push(`In it, ${rowLines.names[i]} has ${whole(own[0])} ones in ${several(own[1], "observed entry", "observed entries")}, and ${columnLines.names[j]} has ${whole(other[0])} in ${whole(other[1])}.`);
  }
  if (!both.length) sentences.push(`No ${data.group} has both the ${data.nouns.row} and the ${data.nouns.column}.`);
  if (data.xor && both.length > 1) sentences.push(both.length % 2 ? "Their number is odd, so the result is 1." : "Their number is even, so they cancel out.");
  return sentences;
}

function offsetSentences(i, j) {
  const one = (lines, at, axis) => `${lines.names[at]}: offset ${lines.offsets[at].toFixed(2)}, so that ones are ${lines.offsets[at] > 0 ? "more" : "less"} common in this ${axis} than in an average one.`;
  return [one(rowLines, i, data.nouns.row), one(columnLines, j, data.nouns.column), "This page shows the other contributions for the first and last entries of the lists; boolweave explain shows them for any entry."];
}

// An element with the reasons for row i and column j, which are numbers of lines; `seen` is 0, 1 or NOTHING.
function reasons(i, j, seen, chance) {
  const title = `${rowLines.names[i]} × ${columnLines.names[j]}`;
  const value = seen === NOTHING ? "not observed" : `observed ${seen}`;
  const place = make("div", { class: "why" }, make("p", {}, make("b", {}, title), `: ${value}, ${predictionText(...chance)}`));
  const found = known.get(`${i} ${j}`);
  if (found) {
    const bars = make("div", { class: "chart" });
    place.append(make("p", {}, "Log-odds of a 1, and the contributions to them:"), bars);
    chart(bars, (where) => amountChart(where, found, "Parts of the log-odds"));
  }
  const sentences = found ? found.sentences : data.kind === "completion" ? offsetSentences(i, j) : factorSentences(i, j);
  place.append(make("ul", {}, ...sentences.map((text) => make("li", {}, text))));
  return place;
}
