"use strict";

// Elements are made here and nowhere else. What a subject supplied comes in as text alone: it is never markup, an
// address or a style.

/** An element. Functions become listeners, other attributes are set as they are; strings become text. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value);
  }
  put(element, children);
  return element;
}

function put(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) put(element, child);
    else if (child !== undefined && child !== null && child !== false) element.append(child);
  }
}

/** Put new children in the place of the old ones. */
function fill(element, ...children) {
  element.replaceChildren();
  put(element, children);
}

const byId = (id) => document.getElementById(id);

function plural(count, noun) {
  const ending = noun.endsWith("y") ? noun.slice(0, -1) + "ies" : noun + "s";
  return `${count.toLocaleString("en")} ${count === 1 ? noun : ending}`;
}
