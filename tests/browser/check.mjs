// Opens HTML reports in headless Chromium, as a reader would: light, dark, printed, on a phone, and with the keyboard.
//
//   node check.mjs CHROMIUM OUT FILE...
//
// Writes screenshots and PDFs to the folder OUT. Prints one line for each mistake, and exits with 1 if there is any.

import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { basename, join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [, , executablePath, out, ...files] = process.argv;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

const DESKTOP = { width: 1200, height: 900 };
const PHONE = { width: 390, height: 844 };
// Smaller text is hard to read.
const LEAST_TEXT_PX = 9;
const MOST_TABS = 2000;

const mistakes = new Set();

async function open(browser, file, options) {
  const context = await browser.newContext({ viewport: DESKTOP, ...options });
  const page = await context.newPage();
  const url = pathToFileURL(file).href;
  const wrong = (what) => mistakes.add(`${basename(file)}: ${what}`);
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) wrong(`the console says: ${message.text()}`);
  });
  page.on("pageerror", (error) => wrong(`a script failed: ${error.message}`));
  page.on("request", (request) => {
    if (request.url().split("#")[0] !== url) wrong(`it loads ${request.url()}`);
  });
  await page.goto(url);
  return { context, page, wrong };
}

async function checkWidth(page, wrong, name) {
  const [content, window] = await page.evaluate(() => {
    const root = document.documentElement;
    return [root.scrollWidth, root.clientWidth];
  });
  if (content > window) wrong(`${name}: the page is ${content} px wide in a window of ${window} px`);
}

async function checkPictures(page, wrong, name) {
  const found = await page.evaluate((least) => {
    const shown = [...document.querySelectorAll("svg")].filter((svg) => svg.getBoundingClientRect().width > 0);
    const small = new Set();
    for (const svg of shown) {
      const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
      for (const text of svg.querySelectorAll("text")) {
        const pixels = parseFloat(getComputedStyle(text).fontSize) * scale;
        if (pixels < least) small.add(svg.getAttribute("aria-label"));
      }
    }
    const unnamed = shown.filter((svg) => svg.getAttribute("role") !== "img" || !svg.getAttribute("aria-label"));
    return { shown: shown.length, small: [...small], unnamed: unnamed.length };
  }, LEAST_TEXT_PX);
  for (const picture of found.small) wrong(`${name}: text is below ${LEAST_TEXT_PX} px in the picture "${picture}"`);
  if (found.unnamed > 0) wrong(`${name}: ${found.unnamed} pictures have no text alternative`);
  return found.shown;
}

async function checkAccessibility(page, wrong, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const { id, impact, help, nodes } of violations) {
    if (["serious", "critical"].includes(impact)) {
      wrong(`${name}: axe-core finds ${id} (${impact}): ${help}, ${nodes.length} times, first at ${nodes[0].target}`);
    }
  }
}

async function checkKeyboard(page, wrong) {
  const focused = () =>
    page.evaluate(() => {
      const one = document.activeElement;
      const style = getComputedStyle(one);
      const box = one.getBoundingClientRect();
      const isSeen = box.width > 0 && box.right > 0 && box.bottom > 0 && style.outlineStyle !== "none";
      const text = (one.getAttribute("aria-label") ?? one.textContent).trim().slice(0, 40);
      return { tag: one.tagName, href: one.getAttribute("href"), text, isSeen };
    });
  await page.keyboard.press("Tab");
  const first = await focused();
  if (first.href !== "#main") wrong(`keyboard: the first stop is ${first.tag} "${first.text}", not the link to the report`);
  await page.keyboard.press("Enter");
  if ((await page.evaluate(() => document.activeElement.id)) !== "main") wrong("keyboard: the skip link leads nowhere");

  await page.evaluate(() => document.activeElement.blur());
  const stops = await page.evaluate(
    () =>
      [...document.querySelectorAll("a[href], summary, [tabindex='0']")].filter((one) => one.checkVisibility()).length,
  );
  let seen = 0;
  let opened = false;
  await page.evaluate(() => window.scrollTo(0, 0));
  await page.goto(page.url().split("#")[0]);
  for (let tabs = 0; tabs < MOST_TABS; tabs++) {
    await page.keyboard.press("Tab");
    const at = await focused();
    if (at.tag === "BODY" || at.tag === "HTML") break;
    seen += 1;
    if (!at.isSeen) wrong(`keyboard: the focus on ${at.tag} "${at.text}" cannot be seen`);
    if (at.tag === "SUMMARY" && !opened) {
      const toggled = await page.evaluate(() => document.activeElement.parentElement.open);
      await page.keyboard.press("Enter");
      opened = (await page.evaluate(() => document.activeElement.parentElement.open)) !== toggled;
      if (!opened) wrong(`keyboard: Enter does not open "${at.text}"`);
      await page.keyboard.press("Enter");
    }
  }
  if (seen < stops) wrong(`keyboard: ${stops} elements take the focus, and Tab reaches ${seen}`);
}

async function checkLinks(page, wrong) {
  const broken = await page.evaluate(() =>
    [...document.querySelectorAll("a[href^='#']")]
      .map((link) => link.getAttribute("href").slice(1))
      .filter((id) => !document.getElementById(id)),
  );
  for (const id of broken) wrong(`the link #${id} leads nowhere`);
  const scripts = await page.evaluate(() => document.querySelectorAll("script, iframe, object, embed, link").length);
  if (scripts > 0) wrong(`it has ${scripts} elements that run or load something`);
}

const openAll = (page) =>
  page.evaluate(() => document.querySelectorAll("details").forEach((details) => (details.open = true)));

async function check(browser, file) {
  const name = basename(file, ".html");
  let pictures = 0;
  for (const colorScheme of ["light", "dark"]) {
    const { context, page, wrong } = await open(browser, file, { colorScheme });
    await page.screenshot({ path: join(out, `${name}-${colorScheme}.png`), fullPage: true });
    pictures = await checkPictures(page, wrong, colorScheme);
    await checkWidth(page, wrong, colorScheme);
    if (colorScheme === "light") await checkLinks(page, wrong);
    await openAll(page);
    await checkWidth(page, wrong, `${colorScheme}, unfolded`);
    await context.close();
  }
  for (const colorScheme of ["light", "dark"]) {
    // The policy of the page forbids the script of axe-core.
    const { context, page, wrong } = await open(browser, file, { colorScheme, bypassCSP: true });
    await openAll(page);
    await checkAccessibility(page, wrong, colorScheme);
    await context.close();
  }
  {
    const { context, page, wrong } = await open(browser, file, { viewport: PHONE, isMobile: true });
    await page.screenshot({ path: join(out, `${name}-390.png`), fullPage: true });
    await checkPictures(page, wrong, "390 px");
    await checkWidth(page, wrong, "390 px");
    await openAll(page);
    await checkWidth(page, wrong, "390 px, unfolded");
    await context.close();
  }
  {
    const { context, page, wrong } = await open(browser, file, { viewport: { width: 688, height: 1000 } });
    await page.emulateMedia({ media: "print" });
    await checkWidth(page, wrong, "print");
    const pdf = await page.pdf({ path: join(out, `${name}.pdf`), format: "A4", printBackground: false });
    if (pdf.length < 10_000) wrong(`print: the PDF has ${pdf.length} bytes only`);
    await context.close();
  }
  {
    const { context, page, wrong } = await open(browser, file, {});
    await checkKeyboard(page, wrong);
    await context.close();
  }
  console.log(`${basename(file)}: ${pictures} pictures, looked at in light, dark, print, at 390 px and with the keyboard`);
}

if (files.length === 0) {
  console.error("name at least one file");
  process.exit(2);
}
mkdirSync(out, { recursive: true });
const flags = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
const browser = await chromium.launch({ executablePath, args: flags, headless: true });
try {
  for (const file of files) await check(browser, file);
} finally {
  await browser.close();
}
for (const mistake of mistakes) console.error(mistake);
process.exit(mistakes.size > 0 ? 1 : 0);
