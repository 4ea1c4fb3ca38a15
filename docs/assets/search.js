/* The search of the site: it takes the place of the theme's, and speaks its messages.

   A page is found as one text. The theme's search scores each section by itself, so a question whose words are in
   several sections of a page does not find the page; and it completes all words, so "long" finds "longiclbench".
   Here a page scores for each word of the question, most for its keywords and its title, less for the titles of its
   sections, least for its text. Rare words count more. Endings are cut, so "resumed" finds "resuming". */
"use strict";

const STOP_WORDS = new Set((
  "a an and are as be by can could did do does for from get had has have how i if in is it its me my need of on or " +
  "should that the there this to use used using want was we what when where which who why will with would you your " +
  "at also already not no so than then them they these those our change find give like make many much possible see " +
  "tell work works put mean means happen happens go let take takes only still any some more most other same"
).split(" "));

const WEIGHTS = {keywords: 4, title: 3, headings: 1.5, text: 1};
const HALF_OF_TEXT = 3; // a word that is so often in a page has half of the greatest weight of texts
const COMPLETED = 0.5; // weight of a word that only begins as the reader's word does
const SHOWN_SECTIONS = 2;
const SNIPPET = 240; // characters
const SHOWN_PAGES = 30;

const ENDINGS = [
  [/isation/, "ization"], [/is(e|ed|es|er|ers|ing)$/, "iz$1"], [/ys(e|ed|es|er|ers|ing)$/, "yz$1"],
  [/ies$/, "y"], [/izations?$|iz(e|ed|es|er|ers|ing)$/, "iz"], [/at(ions?|ing|ors?|ed|es?)$/, "at"], [/sses$/, "ss"],
  [/(ing|edly|ed|ers?|es|ly|(?<![su])s)$/, ""], [/([^aeiouylsz])\1$/, "$1"], [/e$/, ""], [/y$/, "i"],
];

/* Return a word without its ending; short words and numbers are unchanged. */
function stem(word) {
  if (word.length < 4 || /^\d+$/.test(word)) return word;
  let rest = word;
  for (const [ending, replacement] of ENDINGS) {
    const shorter = rest.replace(ending, replacement);
    if (shorter.length >= 3) rest = shorter;
  }
  return rest;
}

function plain(html) {
  return html.replace(/<[^>]*>/g, " ");
}

/* Return the words of a text, in lower case. Of "multi-gpu", also "multigpu". */
function wordsOf(text) {
  const words = [];
  for (const [found] of text.toLowerCase().matchAll(/[\p{L}\p{N}_.+]+(?:-[\p{L}\p{N}]+)*/gu)) {
    const parts = found.replace(/^\.+|\.+$/g, "").split("-").filter(Boolean);
    words.push(...parts);
    if (parts.length > 1) words.push(parts.join(""));
  }
  return words;
}

function count(counts, text) {
  for (const word of wordsOf(plain(text))) {
    const stemmed = stem(word);
    counts.set(stemmed, (counts.get(stemmed) || 0) + 1);
  }
}

let pages = new Map(); // from the location of a page to what it holds
let pagesWithWord = new Map(); // of the guides
let vocabulary = [];
let guides = 0;

function readDocuments(documents) {
  pages = new Map();
  for (const section of documents) {
    const location = section.location.split("#")[0];
    if (!pages.has(location)) {
      const fields = {keywords: new Map(), title: new Map(), headings: new Map(), text: new Map()};
      pages.set(location, {fields, article: section, boost: section.boost ?? 1, sections: []});
      count(fields.keywords, (section.tags || []).join(" "));
    }
    const page = pages.get(location);
    const own = {section, title: new Map(), text: new Map()};
    count(own.title, section.title);
    count(own.text, section.text);
    page.sections.push(own);
    const heading = section === page.article ? page.fields.title : page.fields.headings;
    count(heading, section.title);
    count(page.fields.text, section.text);
  }
  pagesWithWord = new Map();
  const known = new Set();
  guides = 0;
  for (const {fields, boost} of pages.values()) {
    const words = new Set(Object.values(fields).flatMap((counts) => [...counts.keys()]));
    for (const word of words) known.add(word);
    if (boost < 1) continue;
    guides += 1;
    for (const word of words) pagesWithWord.set(word, (pagesWithWord.get(word) || 0) + 1);
  }
  vocabulary = [...known];
}

function rarity(word) {
  const having = pagesWithWord.get(word) || 0;
  return Math.log(1 + (guides - having + 0.5) / (having + 0.5));
}

/* Return the stems that a reader's word stands for, with their weights: its own, and longer ones.

   If no guide has the word, it may be the beginning of any word; otherwise only of a form that is slightly longer. */
function readings(word) {
  const stemmed = stem(word);
  const found = new Map([[stemmed, 1]]);
  if (word.length < 3) return found;
  const longest = pagesWithWord.has(stemmed) ? stemmed.length + 2 : Infinity;
  for (const longer of vocabulary) {
    if (longer !== stemmed && longer.length <= longest && longer.startsWith(stemmed)) found.set(longer, COMPLETED);
  }
  return found;
}

function scoreOfWord(meanings, scoreOfStem) {
  let best = 0;
  for (const [stemmed, weight] of meanings) best = Math.max(best, weight * scoreOfStem(stemmed));
  return best;
}

function scoreInPage({fields}, stemmed) {
  let score = 0;
  for (const name of ["keywords", "title", "headings"]) if (fields[name].has(stemmed)) score += WEIGHTS[name];
  const times = fields.text.get(stemmed) || 0;
  return rarity(stemmed) * (score + WEIGHTS.text * times / (times + HALF_OF_TEXT));
}

function scoreInSection({title, text}, stemmed) {
  const times = text.get(stemmed) || 0;
  return rarity(stemmed) * ((title.has(stemmed) ? WEIGHTS.headings : 0) + WEIGHTS.text * times / (times + 1));
}

/* Return the sum over the words of the question, times the share of words that were found. */
function total(scores) {
  const found = scores.filter((score) => score > 0).length;
  return scores.reduce((sum, score) => sum + score, 0) * found / scores.length;
}

/* Return a text, or its part around the first word that was found, with those words marked. */
function marked(html, stems, length = Infinity) {
  const isFound = (word) => wordsOf(word.replace(/&\w+;/g, " ")).some((part) => stems.has(stem(part)));
  const words = plain(html).split(/\s+/).filter(Boolean);
  const first = words.findIndex(isFound);
  if (first < 0 && length < Infinity) return "";
  let shown = "";
  for (const word of words.slice(length < Infinity ? Math.max(0, first - 8) : 0)) {
    if (shown.length > length) return `${shown}…`;
    shown += `${isFound(word) ? `<mark>${word}</mark>` : word} `;
  }
  return shown.trim();
}

function shown(section, score, terms, stems) {
  const {location, title, text} = section;
  return {location, title: marked(title, stems), text: marked(text, stems, SNIPPET), score, terms};
}

/* Return the pages that answer a question, best first: each as a list, the page and then its best sections. */
function search(question) {
  const given = [...new Set(wordsOf(question))];
  const telling = given.filter((word) => !STOP_WORDS.has(word));
  const asked = (telling.length ? telling : given).map((word) => [word, readings(word)]);
  const stems = new Set(asked.flatMap(([, meanings]) => [...meanings.keys()]));
  const results = [];
  for (const page of pages.values()) {
    const scores = asked.map(([, meanings]) => scoreOfWord(meanings, (stemmed) => scoreInPage(page, stemmed)));
    const ofPage = scores.reduce((sum, score) => sum + score, 0);
    if (ofPage === 0) continue;
    const sections = page.sections.map((own) => [
      total(asked.map(([, meanings]) => scoreOfWord(meanings, (stemmed) => scoreInSection(own, stemmed)))), own.section,
    ]);
    sections.sort(([first], [second]) => second - first);
    const foundShare = scores.filter((score) => score > 0).length / scores.length;
    const score = (ofPage + sections[0][0] / 2) * (1 + foundShare ** 2) * page.boost;
    const terms = Object.fromEntries(asked.map(([word], index) => [word, scores[index] > 0]));
    const inside = sections.filter(([value, section]) => value > 0 && section !== page.article);
    results.push({score, page, terms, inside});
  }
  results.sort((first, second) => second.score - first.score);
  return results.slice(0, SHOWN_PAGES).map(({score, page, terms, inside}) => [
    shown(page.article, score, terms, stems),
    ...inside.slice(0, SHOWN_PAGES).map(([, section], index) => shown(section, index < SHOWN_SECTIONS ? score : score / 2, terms, stems)),
  ]);
}

/* Answer a message of the theme: 0 brings the documents, 2 asks a question. */
function answer({type, data}) {
  if (type === 0) {
    readDocuments(data.docs);
    return {type: 1};
  }
  return {type: 3, data: {items: search(data)}};
}

addEventListener("message", (event) => postMessage(answer(event.data)));
