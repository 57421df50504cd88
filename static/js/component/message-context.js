// What the site says about the page with each message: a text, an object of texts, or a function that returns one.

export async function contextOf(given) {
  const value = typeof given === "function" ? await given() : given;
  if (!value) return [];
  const pairs = typeof value === "string" ? [["page", value]] : Object.entries(value);
  return pairs.map(([description, text]) => ({ description, value: typeof text === "string" ? text : JSON.stringify(text) }))
    .filter((pair) => pair.description && pair.value);
}
