// Tables that grow while an answer is written. From their third row on, the columns keep their widths.

const ROWS = 3;
const MOST_GROWTH = 1.25; // of the height by the kept widths

export function tablesIn(element) {
  return [...element.querySelectorAll(".table > table")];
}

// Keep the widths of the columns of tables that have enough rows.
export function freezeColumns(element) {
  for (const table of tablesIn(element)) {
    if (!table.style.tableLayout && table.tBodies[0]?.rows.length >= ROWS) setWidths(table, firstWidths(table));
  }
}

// Give a finished table the widths of the one that it replaces, unless they would make it much higher.
export function keepColumns(table, replaced) {
  if (!replaced?.style.tableLayout) return;
  const widths = [...replaced.rows[0].cells].map((cell) => cell.style.width);
  if (widths.length !== table.rows[0].cells.length) return;
  const height = table.offsetHeight;
  setWidths(table, widths);
  if (table.offsetHeight > height * MOST_GROWTH) setWidths(table, widths.map(() => ""));
}

// The widths by the rows that are complete: the same however much of the others came with them.
function firstWidths(table) {
  const others = [...table.tBodies[0].rows].slice(ROWS - 1);
  for (const row of others) row.hidden = true;
  const widths = [...table.rows[0].cells].map((cell) => `${cell.getBoundingClientRect().width}px`);
  for (const row of others) row.hidden = false;
  return widths;
}

function setWidths(table, widths) {
  table.style.tableLayout = widths[0] ? "fixed" : "";
  [...table.rows[0].cells].forEach((cell, place) => (cell.style.width = widths[place]));
}
