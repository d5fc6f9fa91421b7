// What a reader would find ugly or unreadable in the page that is open; run in it by tests/browser.py.
// Returns a list of [kind, text].
(least) => {
  const found = [];
  const shown = (element) => {
    const style = getComputedStyle(element);
    return style.visibility === "visible" && style.display !== "none" && element.getClientRects().length > 0;
  };
  const name = (element) => {
    const said = (element.textContent || "").trim().replace(/\s+/g, " ").slice(0, 40);
    const kind = element.getAttribute("class") || "";
    return `<${element.tagName.toLowerCase()}${kind ? "." + kind.split(" ").join(".") : ""}> ${said}`.trim();
  };

  // A sideways scroll of the page, and the elements that make it.
  const root = document.documentElement;
  const scrolls = (element) => ["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(element).overflowX);
  if (root.scrollWidth > root.clientWidth) {
    const wide = [...document.body.querySelectorAll("*")].filter((element) => {
      if (!shown(element) || element.getBoundingClientRect().right + scrollX <= root.clientWidth + 0.5) return false;
      for (let up = element.parentElement; up && up !== document.body; up = up.parentElement) if (scrolls(up)) return false;
      return true;
    });
    found.push(["scroll", `${root.scrollWidth} px in ${root.clientWidth}: ${wide.slice(0, 3).map(name).join("; ")}`]);
  }

  // Parts that scroll and that no key reaches.
  for (const element of document.body.querySelectorAll("*")) {
    const style = getComputedStyle(element);
    const hides = (["auto", "scroll"].includes(style.overflowX) && element.scrollWidth > element.clientWidth + 1)
      || (["auto", "scroll"].includes(style.overflowY) && element.scrollHeight > element.clientHeight + 1);
    const inside = "a[href], button, input, select, textarea, summary, [tabindex]";
    if (hides && shown(element) && element.tabIndex < 0 && !element.querySelector(inside)) found.push(["keys", name(element)]);
  }

  // Colours as [red, green, blue, alpha]; the canvas knows every notation.
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const colour = (text) => {
    if (!known.has(text)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = "#000";
      canvas.fillStyle = text;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(text, text === "none" ? [0, 0, 0, 0] : [r, g, b, a / 255]);
    }
    return known.get(text);
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const contrast = (a, b) => {
    const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };

  // What lies behind an element: shapes of its own picture, then the grounds of all around it.
  const canvasGround = colour(matchMedia("(prefers-color-scheme: dark)").matches
    && getComputedStyle(root).colorScheme.includes("dark") ? "#121212" : "#ffffff");
  const behind = (element) => {
    const layers = [];
    if (element instanceof SVGElement) {
      const box = element.getBoundingClientRect();
      const svg = element.closest("svg");
      for (const shape of svg ? svg.querySelectorAll("rect, circle, ellipse, polygon, path") : []) {
        if (!(shape.compareDocumentPosition(element) & Node.DOCUMENT_POSITION_FOLLOWING)) continue;
        const matrix = shape.getScreenCTM();
        if (!matrix) continue;
        const at = new DOMPoint((box.left + box.right) / 2, (box.top + box.bottom) / 2).matrixTransform(matrix.inverse());
        if (shape.isPointInFill(at)) layers.unshift(colour(getComputedStyle(shape).fill));
      }
    }
    for (let up = element; up; up = up.parentElement) layers.push(colour(getComputedStyle(up).backgroundColor));
    return layers.reverse().reduce((below, top) => over(top, below), canvasGround);
  };
  const opacity = (element) => {
    let all = 1;
    for (let up = element; up; up = up.parentElement) all *= parseFloat(getComputedStyle(up).opacity);
    return all;
  };

  // Words of a table that a narrow column breaks in two. Longer ones are texts of others.
  for (const cell of document.body.querySelectorAll("td, th")) {
    const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      for (const word of node.data.matchAll(/[\p{L}\p{N}]{2,20}(?![\p{L}\p{N}])/gu)) {
        if (/[\p{L}\p{N}]/u.test(node.data[word.index - 1] ?? "")) continue;
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
        if (lines.size > 1) {
          found.push(["broken", `${word[0]} in ${name(cell)}`]);
          break;
        }
      }
    }
  }

  const seen = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || !element || seen.has(element)) continue;
    seen.add(element);
    if (["SCRIPT", "STYLE", "NOSCRIPT", "TITLE", "title", "TEMPLATE", "OPTION"].includes(element.tagName) || !shown(element)) continue;
    const box = element.getBoundingClientRect();
    if (box.width <= 1 || box.height <= 1) continue; // for screen readers alone
    const style = getComputedStyle(element);
    const ground = behind(element);
    const [r, g, b, a] = colour(element instanceof SVGElement ? style.fill : style.color);
    const ratio = contrast(over([r, g, b, a * opacity(element)], ground), ground);
    if (ratio < least) found.push(["contrast", `${ratio.toFixed(2)} of ${name(element)}`]);
    if (element instanceof SVGElement) {
      const frame = (element.closest("svg").parentElement || document.body).getBoundingClientRect();
      if (box.left < Math.min(0, frame.left) - 1 || box.right > Math.max(root.clientWidth, frame.right) + 1) found.push(["cut", name(element)]);
    }
  }
  return found;
}
