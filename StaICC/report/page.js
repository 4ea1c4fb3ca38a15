"use strict";
(function () {
  function value(row, column) {
    var cell = row.cells[column], text = cell.textContent.trim();
    if (text.charAt(0) === "-" && cell.querySelector("sup")) return null;
    return /^[-+]?[\d.]+(?![\d.-])/.test(text) ? parseFloat(text) : text;
  }
  function compare(a, b, sign) { // cells without a value are always last
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a !== typeof b) return typeof a === "number" ? -sign : sign;
    return sign * (typeof a === "number" ? a - b : a.localeCompare(b));
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
          .sort(function (a, b) { return compare(value(a, column), value(b, column), down ? -1 : 1); })
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
    closed = folds.filter(function (one) { return one.matches("section > details") && !one.open; });
    closed.forEach(function (one) { one.open = true; });
  });
  window.addEventListener("afterprint", function () {
    closed.forEach(function (one) { one.open = false; });
  });
})();
