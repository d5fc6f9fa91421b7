// What a printer would lose of the page that is open, or waste on it; run in it by tests/browser.py.
// Returns a list of [kind, text].
() => {
  const found = [];
  const shown = (element) => element.getClientRects().length > 0 && getComputedStyle(element).visibility === "visible";
  const name = (element) => `<${element.tagName.toLowerCase()}.${element.getAttribute("class") || ""}> ${(element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40)}`;
  const light = (text) => {
    const [r, g, b, a = 1] = (text.match(/[\d.]+/g) || []).map(Number);
    return a < 0.5 ? 1 : (0.2126 * r + 0.7152 * g + 0.0722 * b) / 255;
  };
  for (const element of [document.documentElement, ...document.body.querySelectorAll("*"), document.body]) {
    if (!shown(element)) continue;
    const style = getComputedStyle(element);
    const box = element.getBoundingClientRect();
    const hides = (overflow, all, part) => overflow !== "visible" && all > part + 1 && part > 1;
    const inside = !(element instanceof SVGElement) && element.clientWidth > 1 && style.textOverflow !== "ellipsis";
    if (inside && element !== document.documentElement && element !== document.body
      && (hides(style.overflowX, element.scrollWidth, element.clientWidth) || hides(style.overflowY, element.scrollHeight, element.clientHeight)))
      found.push(["cut", name(element)]);
    if (box.width * box.height > 4000 && light(style.backgroundColor) < 0.5) found.push(["dark", name(element)]);
  }
  for (const details of document.querySelectorAll("details"))
    if (shown(details) && [...details.children].some((child) => child.tagName !== "SUMMARY" && !child.checkVisibility({ contentVisibilityAuto: true })))
      found.push(["closed", name(details)]);
  return found;
}
