// What differs between two texts, line by line: the longest common subsequence of what is between the ends. Pure.

const MOST = 4_000_000; // cells of the table; beyond that all of the middle counts as replaced

export function lines(before, after) {
  const a = before.split("\n");
  const b = after.split("\n");
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const out = [];
  const keep = (i, j) => out.push({ kind: "same", left: i + 1, right: j + 1, before: a[i], after: b[j] });
  for (let i = 0; i < start; i += 1) keep(i, i);
  out.push(...middle(a, b, start, a.length - end, b.length - end));
  for (let i = end; i > 0; i -= 1) keep(a.length - i, b.length - i);
  return out;
}

function middle(a, b, start, aEnd, bEnd) {
  const n = aEnd - start;
  const m = bEnd - start;
  const out = [];
  let removed = [];
  let added = [];
  const flush = () => {
    for (let i = 0; i < Math.max(removed.length, added.length); i += 1) {
      const [left, right] = [removed[i], added[i]];
      out.push({
        kind: left === undefined ? "added" : right === undefined ? "removed" : "changed",
        left: left === undefined ? null : left + 1, right: right === undefined ? null : right + 1,
        before: left === undefined ? null : a[left], after: right === undefined ? null : b[right],
      });
    }
    removed = [];
    added = [];
  };
  if (n * m > MOST) {
    for (let i = start; i < aEnd; i += 1) removed.push(i);
    for (let j = start; j < bEnd; j += 1) added.push(j);
    flush();
    return out;
  }
  const length = Array.from({ length: n + 1 }, () => new Uint32Array(m + 1));
  for (let i = n - 1; i >= 0; i -= 1) {
    for (let j = m - 1; j >= 0; j -= 1) {
      length[i][j] = a[start + i] === b[start + j] ? length[i + 1][j + 1] + 1 : Math.max(length[i + 1][j], length[i][j + 1]);
    }
  }
  let [i, j] = [0, 0];
  while (i < n || j < m) {
    if (i < n && j < m && a[start + i] === b[start + j]) {
      flush();
      out.push({ kind: "same", left: start + i + 1, right: start + j + 1, before: a[start + i], after: b[start + j] });
      i += 1;
      j += 1;
    } else if (j >= m || (i < n && length[i + 1][j] >= length[i][j + 1])) {
      removed.push(start + i);
      i += 1;
    } else {
      added.push(start + j);
      j += 1;
    }
  }
  flush();
  return out;
}

export function differs(rows) {
  return rows.some((each) => each.kind !== "same");
}
