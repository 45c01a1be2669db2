// JSON as text, laid out without being read into numbers: 12345678901234567890 and 1.10 stay what they are. Pure.

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

export function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// An object or an array in a text: what is worth laying out.
export function isStructure(value) {
  if (typeof value !== "string" || !/^\s*[[{]/.test(value) || !isJson(value)) return false;
  const parsed = JSON.parse(value);
  return !isBase64(parsed);
}

export function isBase64(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).join() === "base64" && typeof value.base64 === "string";
}

export function pretty(text, indent = "") {
  let depth = 0;
  let out = "";
  const tokens = text.match(TOKEN) ?? [];
  const line = () => `\n${indent}${"  ".repeat(depth)}`;
  tokens.forEach((token, index) => {
    const next = tokens[index + 1];
    if (token === "{" || token === "[") {
      out += token;
      if (next === "}" || next === "]") return;
      depth += 1;
      out += line();
    } else if (token === "}" || token === "]") {
      const before = tokens[index - 1];
      if (before !== "{" && before !== "[") {
        depth -= 1;
        out += line();
      }
      out += token;
    } else if (token === ",") out += `,${line()}`;
    else if (token === ":") out += ": ";
    else out += token;
  });
  return out;
}

// On one line, with the blanks that PostgreSQL's jsonb has.
export function compact(text) {
  return (text.match(TOKEN) ?? []).map((token) => (token === "," ? ", " : token === ":" ? ": " : token)).join("");
}

// The members of an object as texts, by name.
export function members(text) {
  const found = new Map();
  const tokens = text.match(TOKEN) ?? [];
  let depth = 0;
  let name = null;
  let value = [];
  const end = () => {
    if (name !== null) found.set(name, value.map((token) => (token === "," ? ", " : token === ":" ? ": " : token)).join(""));
    name = null;
    value = [];
  };
  tokens.forEach((token, index) => {
    if (depth === 1 && name === null && token.startsWith('"') && tokens[index + 1] === ":") name = JSON.parse(token);
    else if (depth === 1 && token === "," ) end();
    else if (depth === 1 && token === "}") end();
    else if (name !== null && !(depth === 1 && token === ":" && !value.length)) value.push(token);
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
  });
  return found;
}

const FIXED = ["commit_lsn", "ordinal", "committed_at", "id"];
const EXPANDED = ["payload", "headers"];

// A record for an editor: what cannot be edited is left out; JSON in payload and headers is laid out.
export function editable(record) {
  const lines = Object.entries(record)
    .filter(([name]) => !FIXED.includes(name))
    .map(([name, value]) => {
      const text = EXPANDED.includes(name) && isStructure(value) ? pretty(value, "  ") : pretty(JSON.stringify(value), "  ");
      return `  ${JSON.stringify(name)}: ${text}`;
    });
  return `{\n${lines.join(",\n")}\n}`;
}

// The record that an editor's text is of: what was not changed stays as it was to the byte. SyntaxError: it is no JSON.
export function edited(record, text) {
  const parsed = JSON.parse(text);
  if (parsed === null || typeof parsed !== "object" || Array.isArray(parsed)) throw new SyntaxError("it is not an object");
  const made = { ...record };
  for (const name of Object.keys(made)) if (!FIXED.includes(name) && !(name in parsed)) made[name] = null;
  for (const [name, value] of members(text)) {
    if (EXPANDED.includes(name) && /^[[{]/.test(value) && !isBase64(JSON.parse(value))) {
      const before = record[name];
      made[name] = isStructure(before) && compact(before) === value ? before : value;
    } else {
      made[name] = JSON.parse(value);
    }
  }
  return made;
}
