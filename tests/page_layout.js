// Returns what is wrong with the layout of report.html, in words.
const wide = document.documentElement.clientWidth, wrong = [];
const shown = each => each.checkVisibility({opacityProperty: true, visibilityProperty: true});
const boxed = each => { const b = each.getBoundingClientRect(); return {each, l: b.left, t: b.top, r: b.right, b: b.bottom}; };
const name = box => `${box.each.className.baseVal ?? box.each.className} ${box.each.textContent.trim().slice(0, 30)}`;
if (document.documentElement.scrollWidth > wide) wrong.push(`the page is ${document.documentElement.scrollWidth} wide`);
for (const each of document.querySelectorAll('main h2, main p, .card, .tile, form, label, select, button, nav a, .chip, .panel, summary, pre')) {
  const box = boxed(each);
  if (shown(each) && !each.closest('.scroll') && (box.l < -0.5 || box.r > wide + 0.5)) wrong.push(`beyond the page: ${name(box)}`);
}
for (const each of document.querySelectorAll('.card, .tile, .three span, .chip, td, th, button, .headline')) {
  if (shown(each) && each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).display !== 'inline') wrong.push(`cut off: ${name(boxed(each))}`);
}
const over = (a, b) => Math.min(a.r, b.r) - Math.max(a.l, b.l) > 1 && Math.min(a.b, b.b) - Math.max(a.t, b.t) > 2.5;
for (const plot of document.querySelectorAll('.plot svg')) {
  if (!shown(plot)) continue;
  const edge = boxed(plot), texts = [...plot.querySelectorAll('text')].map(boxed);
  for (const text of texts) {
    if (text.l < edge.l - 1 || text.r > edge.r + 1 || text.t < edge.t - 1 || text.b > edge.b + 1) wrong.push(`outside its plot: ${name(text)}`);
    const size = (text.b - text.t);
    if (text.each.classList.contains('label') && size < 9) wrong.push(`too small: ${name(text)} ${size}`);
  }
  const labels = texts.filter(text => !text.each.classList.contains('name'));
  labels.forEach((a, n) => labels.slice(n + 1).forEach(b => { if (over(a, b)) wrong.push(`overlap: ${name(a)} and ${name(b)}`); }));
}
for (const table of document.querySelectorAll('table')) {
  const room = table.closest('.scroll');
  if (wide >= 1280 && table.scrollWidth > room.clientWidth + 1) wrong.push(`table ${table.id} is cut off: ${table.scrollWidth} in ${room.clientWidth}`);
}
return wrong;
