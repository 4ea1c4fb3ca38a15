"use strict";
(function () {
  function value(row, column) {
    var text = row.cells[column].textContent.trim();
    var number = parseFloat(text.replace("\u2212", "-"));
    return /^[-+\u2212]?[\d.]/.test(text) && !isNaN(number) ? number : text;
  }
  function compare(a, b) {
    var numbers = (typeof a === "number") + (typeof b === "number");
    if (numbers === 2) return a - b;
    if (numbers === 1) return typeof a === "number" ? -1 : 1;
    return a.localeCompare(b);
  }
  document.querySelectorAll("table.sortable").forEach(function (table) {
    var heads = Array.from(table.tHead.rows[0].cells);
    var body = table.tBodies[0];
    if (body.rows.length < 2) return;
    heads.forEach(function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.append.apply(button, Array.from(head.childNodes));
      head.append(button);
      head.setAttribute("aria-sort", "none");
      button.addEventListener("click", function () {
        var down = head.getAttribute("aria-sort") === "ascending";
        heads.forEach(function (other) { other.setAttribute("aria-sort", "none"); });
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        Array.from(body.rows)
          .sort(function (a, b) { return (down ? -1 : 1) * compare(value(a, column), value(b, column)); })
          .forEach(function (row) { body.append(row); });
      });
    });
  });
  var folds = Array.from(document.querySelectorAll("details"));
  function toggle(open) { folds.forEach(function (one) { one.open = open; }); }
  var tools = document.querySelector(".tools");
  [["Unfold all", true], ["Fold all", false]].forEach(function (pair) {
    var button = document.createElement("button");
    button.type = "button";
    button.textContent = pair[0];
    button.addEventListener("click", function () { toggle(pair[1]); });
    tools.append(button);
  });
  var closed = [];
  window.addEventListener("beforeprint", function () {
    closed = folds.filter(function (one) { return one.matches("section > details, .short") && !one.open; });
    closed.forEach(function (one) { one.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (one) { one.open = false; });
  });
})();
