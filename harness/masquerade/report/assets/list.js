// A long list of which only the rows in sight exist. The arrow keys move in it, Enter opens, as in any grid or list box.

class LongList {
  /** `draw(item, at)` makes a row of `height` pixels; `open(item, column)` is called for the chosen one. */
  constructor(panel, height, draw, open) {
    Object.assign(this, { panel, height, draw, open, items: [], row: 0, column: 0, columns: 1, head: null });
    this.body = h("div", { class: "rows", role: "presentation" });
    this.panel.append(this.body);
    this.panel.addEventListener("scroll", () => this.paint());
    this.panel.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.paint()).observe(this.panel);
  }

  show(items, columns = 1) {
    this.items = items;
    this.columns = columns;
    this.row = Math.min(this.row, Math.max(items.length - 1, 0));
    this.column = Math.min(this.column, columns - 1);
    this.body.style.height = `${items.length * this.height}px`;
    this.paint();
  }

  top() {
    this.row = this.panel.scrollTop = 0;
  }

  paint() {
    const above = this.head ? this.head.offsetHeight : 0;
    const first = Math.max(Math.floor((this.panel.scrollTop - above) / this.height) - 5, 0);
    const last = Math.min(first + Math.ceil(this.panel.clientHeight / this.height) + 12, this.items.length);
    const drawn = [];
    for (let at = first; at < last; at++) {
      const row = this.draw(this.items[at], at);
      row.style.transform = `translateY(${at * this.height}px)`;
      drawn.push(row);
    }
    fill(this.body, drawn.length ? drawn : h("p", { class: "empty" }, "Nothing matches the filters."));
    const here = this.body.querySelector(".here");
    if (here) this.panel.setAttribute("aria-activedescendant", here.id);
    else this.panel.removeAttribute("aria-activedescendant");
  }

  /** Make a row the current one, and bring it into sight. */
  go(row, column = this.column) {
    this.row = Math.max(0, Math.min(row, this.items.length - 1));
    this.column = Math.max(0, Math.min(column, this.columns - 1));
    const above = this.head ? this.head.offsetHeight : 0;
    const top = this.row * this.height;
    const room = this.panel.clientHeight - above - this.height;
    if (top < this.panel.scrollTop) this.panel.scrollTop = top;
    else if (top > this.panel.scrollTop + room) this.panel.scrollTop = top - room;
    this.paint();
    this.body.querySelector(".cell.here")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  choose() {
    if (this.items.length) this.open(this.items[this.row], this.column);
  }

  key(event) {
    const page = Math.max(Math.floor(this.panel.clientHeight / this.height) - 2, 1);
    const moves = {
      ArrowDown: [1, 0], ArrowUp: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1], PageDown: [page, 0], PageUp: [-page, 0],
      Home: [-Infinity, 0], End: [Infinity, 0],
    };
    if (event.target !== this.panel || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" || event.key === " ") this.choose();
    else if (moves[event.key]) this.go(this.row + moves[event.key][0], this.column + moves[event.key][1]);
    else return;
    event.preventDefault();
  }
}
