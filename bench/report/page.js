"use strict";
const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];
const find = id => document.getElementById(id);
const board = find("board"), body = board.tBodies[0], rows = [...body.rows];

// Every row: sorting and filtering.
const value = (row, n) => { const text = row.cells[n].dataset.value; return text === "" ? null : isNaN(text) ? text : Number(text); };
all("th", board).forEach((head, n) => head.firstElementChild.addEventListener("click", () => {
  const down = head.ariaSort === "ascending";
  all("th", board).forEach(other => { other.ariaSort = "none"; });
  head.ariaSort = down ? "descending" : "ascending";
  const order = (a, b) => {
    const [x, y] = [value(a, n), value(b, n)];
    if (x === null || y === null) return (x === null) - (y === null);
    return (down ? -1 : 1) * (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));
  };
  body.append(...[...rows].sort(order));
}));
const filter = find("filter"), trusted = find("trusted");
const apply = () => {
  const words = filter.value.toLowerCase().split(/\s+/);
  let shown = 0;
  for (const row of rows) {
    const text = row.dataset.words.toLowerCase();
    row.hidden = !words.every(word => text.includes(word)) || (trusted.checked && row.classList.contains("doubt"));
    shown += !row.hidden && !row.classList.contains("off");
  }
  find("count").textContent = `${shown} of ${rows.length} rows`;
};
filter.addEventListener("input", apply); trusted.addEventListener("change", apply); apply();

// One group of defenses, in pictures, panels and tables; the undefended model and noise are always there.
const groups = find("groups");
if (groups) all("button", groups).forEach(button => button.addEventListener("click", () => {
  const wanted = button.dataset.group;
  all("button", groups).forEach(other => other.setAttribute("aria-pressed", String(other === button)));
  all("main [data-group]").forEach(each => {
    if (each !== button && !groups.contains(each)) each.classList.toggle("off", wanted !== "" && each.dataset.group !== "" && each.dataset.group !== wanted);
  });
  apply();
}));

// Pictures at a loss of accuracy.
const loss = find("loss");
if (loss) loss.addEventListener("change", () => all("[data-losses]").forEach(tile => {
  tile.hidden = !tile.dataset.losses.split(" ").includes(loss.value);
}));

// Curves of one metric.
const metric = find("metric");
if (metric) metric.addEventListener("change", () => all(".plot").forEach(plot => { plot.hidden = plot.id !== `plot-${metric.value}`; }));

// Defenses, ranked by what is chosen: ranks tie where intervals overlap.
const rank = find("rank");
const ranking = () => {
  const lines = [...find("ranks").tBodies[0].rows].map(row => {
    const text = row.getAttribute(`data-${rank.value}`);
    return { row, ends: text ? text.split(" ").map(Number) : null };
  });
  const known = lines.filter(line => line.ends);
  for (const { row, ends } of lines) {
    const above = ends && known.filter(other => other.ends[1] > ends[2]).length;
    const below = ends && known.filter(other => other.ends[2] < ends[1]).length;
    const [best, worst] = ends ? [1 + above, known.length - below] : [];
    row.querySelector(".rank").textContent = !ends ? "" : best === worst ? `${best}` : `${best} to ${worst}`;
  }
  const order = line => line.ends ? -line.ends[0] : Infinity;
  find("ranks").tBodies[0].append(...lines.sort((a, b) => order(a) - order(b) || 0).map(line => line.row));
};
if (rank) { rank.addEventListener("change", ranking); ranking(); }

// What a mark says, on hover, focus and touch.
const tip = find("tip");
const tell = point => {
  tip.textContent = point.getAttribute("aria-label");
  tip.hidden = false;
  const at = point.getBoundingClientRect(), own = tip.getBoundingClientRect(), wide = document.documentElement.clientWidth;
  const left = Math.min(Math.max(at.left + at.width / 2 - own.width / 2, 8), wide - own.width - 8);
  const above = at.top - own.height - 6;
  tip.style.left = `${left + scrollX}px`;
  tip.style.top = `${(above > 0 ? above : at.bottom + 6) + scrollY}px`;
};
const hush = () => { tip.hidden = true; };
all(".point").forEach(point => {
  point.addEventListener("pointerenter", () => tell(point));
  point.addEventListener("focus", () => tell(point));
  point.addEventListener("click", () => tell(point));
  point.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") hush(); });
  point.addEventListener("blur", hush);
});
document.addEventListener("keydown", event => { if (event.key === "Escape") hush(); });

// The command that runs a row again.
const again = find("again"), commands = all(".command");
if (again) {
  again.addEventListener("change", () => commands.forEach((command, n) => { command.hidden = n !== Number(again.value); }));
  find("copy").addEventListener("click", async () => {
    const command = commands[Number(again.value)];
    if (navigator.clipboard) {
      await navigator.clipboard.writeText(command.textContent.trim());
      find("copy").textContent = "copied";
    } else getSelection().selectAllChildren(command); // who reads it without TLS may not copy
  });
}

// Paper shows what is folded away.
addEventListener("beforeprint", () => all("details").forEach(each => { each.open = true; }));
