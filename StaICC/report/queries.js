"use strict";
(function () {
  var data = JSON.parse(document.getElementById("query-data").textContent);
  var ROW = 46, NOT_RUN = -4, STATES = {"-1": "no label", "-2": "failed", "-3": "unparsed"};
  var SHOW = [
    ["all", "all"], ["wrong", "wrong"], ["confident", "confident and wrong (0.9 or more, most confident first)"],
    ["differs", "prediction differs from the other run"], ["unparsed", "unparsed reply"], ["failed", "failed"],
  ];
  var state = {run: "", other: "", show: "all", set: "", text: "", query: "", truth: "", predicted: ""};
  var textsShown = false, matches = [], selected = -1, lower = null;
  // Control characters, lone surrogates and direction overrides, as in the rest of the page.
  var UNSEEN = /(?![\n\t])[\p{Cc}\p{Cs}\p{Cn}\u202a-\u202e\u2066-\u2069]/gu;

  function make(name, attributes) {
    var one = document.createElement(name);
    Object.keys(attributes || {}).forEach(function (key) { one.setAttribute(key, attributes[key]); });
    one.append.apply(one, Array.prototype.slice.call(arguments, 2));
    return one;
  }
  function printable(text) { return text.replace(UNSEEN, "\ufffd"); }

  var items = [];
  data.sets.forEach(function (set) {
    set.queries.forEach(function (query, i) { // condition, row, number of the query of this row, true label
      items.push({set: set, i: i, truth: query[3], key: [set.benchmark, set.dataset, data.conditions[query[0]], query[1], query[2]].join("/")});
    });
  });
  function runOf(item, name) { return item.set.runs[data.runs.indexOf(name)]; }
  function field(item, name, place, none) { var run = runOf(item, name), found = run && run.queries[item.i]; return found ? found[place] : none; }
  function prediction(item, name) { return field(item, name, 0, NOT_RUN); }
  function reason(item, name) { return field(item, name, 1, ""); }
  function scores(item, name) { return field(item, name, 2, null); }
  function confidence(item, name) { var row = scores(item, name); return row ? Math.max.apply(null, row) / 10000 : null; }
  function isWrong(item, name) { var found = prediction(item, name); return found >= -1 && item.truth >= 0 && found !== item.truth; }
  function label(item, name) {
    var found = prediction(item, name);
    return found === NOT_RUN ? "not evaluated" : STATES[found] || printable(item.set.labels[found]);
  }
  function truth(item) { return item.truth < 0 ? "none" : printable(item.set.labels[item.truth]); }
  function verdict(item, name) {
    var found = prediction(item, name);
    return found < -1 ? label(item, name) : item.truth < 0 ? "no true label" : isWrong(item, name) ? "wrong" : "right";
  }
  function promptOf(item, name) {
    var number = field(item, name, 3, -1);
    return number >= 0 ? number : null;
  }
  function shownText(item) {
    var prompt = promptOf(item, state.run), parts = prompt === null ? [] : data.prompts[prompt];
    return parts.length ? data.parts[parts[parts.length - 1]] : "";
  }

  // -- the page

  function choice(key, text, options) {
    var select = make("select", {id: "query-" + key});
    options.forEach(function (one) { select.append(make("option", {value: one[0]}, one[1])); });
    select.addEventListener("change", function () {
      state[key] = select.value;
      if (key === "set") state.truth = state.predicted = "";
      filter();
    });
    return [make("label", {for: select.id}, text, select), select];
  }
  var runs = data.runs.map(function (name) { return [name, printable(name)]; });
  var sets = [["", "all"]].concat(data.sets.map(function (set, number) {
    return [set.benchmark + "/" + set.dataset + (set.copy ? "/" + set.copy : ""), printable(set.benchmark + ", " + set.dataset + (set.copy ? " (other data)" : ""))];
  }));
  var controls = {
    run: choice("run", "run ", runs), other: choice("other", "other run ", [["", "none"]].concat(runs)),
    set: choice("set", "data set ", sets), show: choice("show", "show ", SHOW),
  };
  var search = make("input", {id: "query-text", type: "search", autocomplete: "off"});
  search.addEventListener("input", function () { state.text = search.value; filter(); });
  var reveal = make("button", {type: "button"}, "Show texts");
  reveal.addEventListener("click", function () {
    textsShown = !textsShown;
    reveal.textContent = textsShown ? "Hide texts" : "Show texts";
    draw();
    detail();
  });
  var pair = make("button", {type: "button"}); // chosen in a confusion matrix
  pair.addEventListener("click", function () { state.truth = state.predicted = ""; filter(); remember(); });
  var count = make("p", {class: "soft", "aria-live": "polite"});
  var space = make("div", {class: "query-space", role: "presentation"});
  var list = make("div", {class: "query-list", role: "listbox", tabindex: "0", "aria-label": "Queries"}, space);
  var panel = make("div", {class: "query-detail"});
  document.getElementById("query-view").append(
    make("div", {class: "query-controls tools"}, controls.run[0], controls.other[0], controls.set[0], controls.show[0],
      make("label", {for: search.id}, "query text or reply contains ", search), reveal, pair),
    count, make("div", {class: "query-columns"}, list, panel));

  function filter() {
    var started = performance.now(), wanted = state.text.toLowerCase(), found = null, lone = 0;
    if (wanted) {
      lower = lower || data.parts.map(function (text) { return text.toLowerCase(); });
      found = lower.map(function (text) { return text.indexOf(wanted) >= 0; });
    }
    var place = sets.findIndex(function (one) { return one[0] === state.set; }) - 1;
    if (place < 0) state.truth = state.predicted = "";
    matches = items.filter(function (item) {
      var own = prediction(item, state.run);
      if (own === NOT_RUN || (place >= 0 && item.set !== data.sets[place])) return false;
      if (state.truth !== "" && (item.truth !== Number(state.truth) || own !== Number(state.predicted))) return false;
      if (state.show === "wrong" && !isWrong(item, state.run)) return false;
      if (state.show === "confident" && !(isWrong(item, state.run) && confidence(item, state.run) >= 0.9)) return false;
      if (state.show === "failed" && own !== -2) return false;
      if (state.show === "unparsed" && own !== -3) return false;
      if (state.show === "differs") {
        var other = state.other ? prediction(item, state.other) : NOT_RUN, missing = [NOT_RUN, -2]; // failed: no prediction
        var single = missing.indexOf(own) >= 0 || missing.indexOf(other) >= 0;
        lone += single;
        if (single || other === own) return false;
      }
      if (!found) return true;
      var prompt = promptOf(item, state.run), parts = prompt === null ? [] : data.prompts[prompt];
      return (parts.length > 0 && found[parts[parts.length - 1]]) || reason(item, state.run).toLowerCase().indexOf(wanted) >= 0;
    });
    if (state.show === "confident") {
      matches.sort(function (a, b) { return confidence(b, state.run) - confidence(a, state.run); });
    }
    var total = items.filter(function (item) { return prediction(item, state.run) !== NOT_RUN; }).length;
    count.textContent = matches.length + " of " + total + " queries" +
      (state.show === "differs" && !state.other ? ". Choose the other run." :
        lone ? "; " + lone + " have no prediction of both runs." : ".");
    pair.hidden = state.truth === "";
    if (!pair.hidden) {
      var names = data.sets[place].labels;
      pair.textContent = "true: " + printable(names[Number(state.truth)] || "") + ", predicted: " + printable(names[Number(state.predicted)] || "") + " \u00d7";
    }
    selected = matches.findIndex(function (item) { return item.key === state.query; });
    space.style.height = matches.length * ROW + "px";
    list.scrollTop = selected > 0 ? (selected - 3) * ROW : 0;
    draw();
    detail();
    document.documentElement.dataset.filtered = performance.now() - started;
  }

  function draw() { // only the rows in sight
    var first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    var last = Math.min(matches.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
    var rows = [];
    for (var n = first; n < last; n++) {
      var item = matches[n], sure = confidence(item, state.run), how = verdict(item, state.run);
      var row = make("div", {
        role: "option", id: "query-row-" + n, "aria-selected": n === selected, "aria-posinset": n + 1,
        "aria-setsize": matches.length, class: "query-row " + (isWrong(item, state.run) || STATES[prediction(item, state.run)] ? "query-bad" : ""),
      },
      make("span", {}, make("strong", {}, how), (prediction(item, state.run) < -1 ? "" : " " + label(item, state.run)) + (sure === null ? "" : " (" + sure.toFixed(4) + ")") +
        (how === "wrong" ? ", true: " + truth(item) : "")),
      make("small", {}, textsShown && shownText(item) ? printable(shownText(item).slice(0, 160)).replace(/\s+/g, " ") : printable(item.key)));
      row.style.top = n * ROW + "px";
      rows.push(row);
    }
    space.replaceChildren.apply(space, rows);
    if (selected >= first && selected < last) list.setAttribute("aria-activedescendant", "query-row-" + selected);
    else list.removeAttribute("aria-activedescendant");
  }

  function prompt(item, name) {
    var number = promptOf(item, name), run = runOf(item, name);
    if (number === null) return make("p", {class: "soft"}, "The prompt is not shown: " + printable(run && run.missing || "not evaluated") + ".");
    if (!textsShown) return make("p", {class: "soft"}, "Texts are hidden until you choose \u201cShow texts\u201d.");
    var parts = data.prompts[number], last = parts.length - 1;
    return make.apply(null, ["div", {}].concat(parts.map(function (part, place) {
      var kind = place === last ? "query" : place ? "demonstration " + place : "instruction";
      if (!data.parts[part]) return "";
      return make("div", {class: "query-part " + (place === last ? "query-asked" : "")}, make("small", {}, kind),
        make("pre", {}, printable(data.parts[part])));
    })));
  }

  function detail() {
    var item = matches[selected];
    if (!item) {
      panel.replaceChildren(make("p", {class: "soft"}, "Select a query: click, or arrow keys in the list."));
      return;
    }
    var names = state.other && state.other !== state.run ? [state.run, state.other] : [state.run];
    var order = item.set.labels.map(function (_, place) { return place; }), row = scores(item, state.run);
    if (order.length > 12) { // the most probable ones and the true one
      if (row) order.sort(function (a, b) { return row[b] - row[a]; });
      var real = item.truth, kept = order.slice(0, 12);
      if (real >= 0 && kept.indexOf(real) < 0) kept.push(real);
      order = kept;
    }
    var head = make("tr", {}, make("th", {scope: "col"}, "label"));
    names.forEach(function (name) { head.append(make("th", {scope: "col"}, printable(name))); });
    var body = make("tbody", {});
    order.forEach(function (place) {
      var name = printable(item.set.labels[place]);
      var line = make("tr", {}, make("th", {scope: "row"}, name + (place === item.truth ? " (true)" : "")));
      names.forEach(function (one) {
        var own = scores(item, one);
        line.append(make("td", {}, (own ? (own[place] / 10000).toFixed(4) : "") + (prediction(item, one) === place ? " \u25c0" : "")));
      });
      body.append(line);
    });
    panel.replaceChildren(
      make("h3", {}, make("a", {href: "#" + link()}, printable(item.key))),
      make("p", {}, "True label: " + truth(item) + "."));
    names.forEach(function (name) {
      var why = reason(item, name);
      panel.append(make("p", {}, make("strong", {}, printable(name)), ": " + (prediction(item, name) < -1 ? "" : label(item, name) + ", ") + verdict(item, name) +
        (why ? ": " + (textsShown ? printable(why) : "the reason is hidden with the texts") : "") + "."));
    });
    var none = names.every(function (name) { return !scores(item, name); });
    panel.append(none ? make("p", {class: "soft"}, "No label probabilities: the predictions are labels, ambiguous scores, or missing.")
      : make("div", {class: "scroll", tabindex: "0", role: "group", "aria-label": "Label probabilities"},
        make("table", {}, make("caption", {}, "Label probabilities (\u25c0: predicted)"), make("thead", {}, head), body)));
    var same = names.length < 2 || promptOf(item, names[0]) === promptOf(item, names[1]);
    (same ? [names[0]] : names).forEach(function (name) {
      panel.append(make("h4", {}, same ? "Prompt" : "Prompt of " + printable(name)), prompt(item, name));
    });
  }

  // -- selection and links

  function link() {
    var found = new URLSearchParams();
    Object.keys(state).forEach(function (key) { if (state[key] && (key !== "show" || state.show !== "all")) found.set(key, state[key]); });
    return found.toString();
  }
  function remember() { history.replaceState(null, "", "#" + link()); }
  function select(place) {
    if (!matches.length) return;
    selected = Math.max(0, Math.min(matches.length - 1, place));
    state.query = matches[selected].key;
    var top = selected * ROW;
    if (top < list.scrollTop) list.scrollTop = top;
    if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    draw();
    detail();
    remember();
  }
  function restore(event) {
    var given = new URLSearchParams(location.hash.slice(1)), keys = Object.keys(state);
    var linked = keys.some(function (key) { return given.has(key); });
    if (event && !linked) return; // the reader went to another section
    keys.forEach(function (key) { state[key] = (linked && given.get(key)) || ""; });
    if (data.runs.indexOf(state.run) < 0) state.run = data.runs[0];
    if (data.runs.indexOf(state.other) < 0) state.other = "";
    if (!SHOW.some(function (one) { return one[0] === state.show; })) state.show = "all";
    Object.keys(controls).forEach(function (key) { controls[key][1].value = state[key]; });
    search.value = state.text;
    filter();
    if (linked) {
      document.querySelector("#queries > details").open = true;
      document.getElementById("queries").scrollIntoView();
    }
  }
  document.querySelectorAll("td[data-queries]").forEach(function (cell) { // of confusion matrices
    var where = JSON.parse(cell.dataset.queries), number = data.runs.indexOf(where[0]);
    var place = data.sets.findIndex(function (set) {
      return set.benchmark === where[1] && set.dataset === where[2] && set.runs[number];
    });
    if (place < 0) return;
    var link = new URLSearchParams({run: where[0], set: sets[place + 1][0], truth: where[3], predicted: where[4]});
    cell.replaceChildren(make("a", {href: "#" + link}, cell.textContent));
  });
  var waiting = false;
  list.addEventListener("scroll", function () {
    if (!waiting) requestAnimationFrame(function () { waiting = false; draw(); });
    waiting = true;
  });
  list.addEventListener("click", function (event) {
    var row = event.target.closest(".query-row");
    if (row) select(parseInt(row.id.slice(10), 10));
  });
  list.addEventListener("keydown", function (event) {
    var page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    var step = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity}[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    select(selected + step);
  });
  Object.keys(controls).forEach(function (key) { controls[key][1].addEventListener("change", remember); });
  search.addEventListener("change", remember);
  window.addEventListener("hashchange", restore);
  restore();
})();
