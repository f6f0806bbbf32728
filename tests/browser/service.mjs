// Uses the pages of a service in headless Chromium, as its users would, on sessions of the fake device.
//
//   node service.mjs CHROMIUM OUT OPTLOOP PROJECT OLD
//
// OLD is a project with the store of an old release.
// Writes screenshots to the folder OUT. Prints one line for each step, and exits with 1 at the first one that fails.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const [, , executablePath, out, optloop, project, old] = process.argv;
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const DESKTOP = { width: 1200, height: 900 };
const PHONE = { width: 400, height: 844 };
const WIDE = { width: 1400, height: 900 };
// Nothing takes as long unless it hangs.
const PATIENCE_MS = 60000;

const mistakes = [];
let steps = 0;
// Chromium reports answers such as 401, and a service that is gone, as errors of the console.
let mayFailToLoad = false;

async function step(name, run) {
  steps += 1;
  await run();
  assert.deepEqual(mistakes, [], name);
  console.log(`${String(steps).padStart(2)} ${name}`);
}

/** Starts a service. Returns its process and its address, once it listens. */
async function serve(listen, more = []) {
  const args = ["serve", `p=${project}`, `old=${old}`, "--listen", listen, "--state", join(project, ".optloop/service"), ...more];
  const child = spawn(optloop, args, { stdio: ["ignore", "pipe", "ignore"] });
  for await (const line of createInterface({ input: child.stdout })) return { child, url: JSON.parse(line).listening };
  throw new Error("the service does not start");
}

async function kill(child) {
  const gone = new Promise((done) => child.once("exit", done));
  child.kill("SIGKILL");
  await gone;
}

async function newPage(browser, options) {
  const context = await browser.newContext({ viewport: DESKTOP, acceptDownloads: true, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE_MS);
  page.on("console", (message) => {
    const isExpected = mayFailToLoad && message.text().startsWith("Failed to load resource");
    if (["error", "warning"].includes(message.type()) && !isExpected) mistakes.push(`the console says: ${message.text()}`);
  });
  page.on("pageerror", (error) => mistakes.push(`a script failed: ${error.message}`));
  return page;
}

/** Goes to a view and waits until it is shown. */
async function visit(page, view, title) {
  await page.goto(`${service.url}/#${view}`);
  await shows(page, title);
}

async function shows(page, title) {
  await page.waitForFunction(() => document.getElementById("main").dataset.view === location.hash);
  await page.locator("h1", { hasText: title }).waitFor();
}

const post = async (path, body = {}) => {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(`${service.url}/api/v1${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  assert.ok(response.ok, await response.clone().text());
  return response.json();
};
const get = async (path) => (await fetch(`${service.url}/api/v1${path}`)).json();

const submit = async (request) => {
  const whole = { workload: "attention-fp16-d64", cases: ["b1h1s64", "b1h1s128"], device: "fake", ...request };
  return (await post("/submissions", { project: "p", request: whole })).id;
};

/** Returns the value of a tile. */
const tile = async (page, name) => page.locator(".tiles div", { has: page.locator(`dt:text-is("${name}")`) }).locator("dd").innerText();

/** Waits until a tile satisfies a condition. Returns its number. */
async function tileBecomes(page, name, wanted) {
  for (const end = Date.now() + PATIENCE_MS; Date.now() < end; ) {
    const value = parseFloat(await tile(page, name));
    if (wanted(value)) return value;
    await page.waitForTimeout(50);
  }
  throw new Error(`${name} is still ${await tile(page, name)}`);
}

async function accessible(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  for (const { id, impact, help, nodes } of violations) {
    if (["serious", "critical"].includes(impact)) mistakes.push(`${name}: ${id} (${impact}): ${help}, first at ${nodes[0].target}: ${nodes[0].html.slice(0, 200)}`);
  }
}

const column = (page, number) => page.locator(`tbody td:nth-child(${number})`).allInnerTexts();

async function download(page, button) {
  const [file] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: button }).click()]);
  return readFileSync(await file.path(), "utf8");
}

mkdirSync(out, { recursive: true });
let service = await serve("127.0.0.1:0");
const port = new URL(service.url).host;
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await newPage(browser);

try {
  await step("the queue is empty", async () => {
    await visit(page, "/", "Queue");
    await page.getByText("Nothing has been submitted yet.").waitFor();
    assert.equal(await page.title(), "Queue - optloop");
  });

  await step("a form submits a session", async () => {
    await page.getByLabel("Workload").selectOption("attention-fp16-d64");
    await page.getByLabel("Cases").fill("b1h1s64, b1h1s128");
    await page.getByLabel("Device").fill("fake");
    await page.getByLabel("Iterations").fill("400");
    await page.getByRole("button", { name: "Submit" }).click();
    await page.getByText("Submitted as").waitFor();
    await page.getByRole("link", { name: "submission #1", exact: true }).click();
    await shows(page, "Submission #1");
  });

  await step("its page follows the session", async () => {
    await page.locator("#connection", { hasText: "live" }).waitFor();
    const before = await tileBecomes(page, "iterations", (count) => count > 3);
    await tileBecomes(page, "iterations", (count) => count > before);
    await page.getByText("Runs now:").waitFor();
  });

  await step("each case has its gain and its ratio to the baseline with intervals", async () => {
    await page.locator("tbody tr", { hasText: "b1h1s64" }).first().waitFor();
    await page.locator("td", { hasText: /× \([\d.]+ to [\d.]+\)/ }).first().waitFor();
  });

  await step("an iteration reaches the page within a second", async () => {
    // The page shows the event as soon as it comes, so the newest row is at most a second behind the record.
    const newest = async () => parseInt((await column(page, 1)).map((text) => text.slice(1)).find((text) => /^\d+$/.test(text)), 10);
    const rows = await get("/projects/p/iterations?limit=50&reverse=true");
    const recorded = Math.max(0, ...rows.filter(({ outcome }) => outcome).map(({ iteration }) => iteration));
    for (const end = Date.now() + 1000; ; ) {
      const shown = await newest();
      if (shown >= recorded) break;
      assert.ok(Date.now() < end, `the page shows ${shown}, and ${recorded} is on record`);
    }
  });

  await step("the page says that the service is gone, and goes on when it is back", async () => {
    mayFailToLoad = true;
    await kill(service.child);
    await page.locator("#connection", { hasText: "disconnected" }).waitFor();
    const before = await tileBecomes(page, "iterations", () => true);
    service = await serve(port);
    await page.locator("#connection", { hasText: "live" }).waitFor();
    await tileBecomes(page, "iterations", (count) => count > before);
    mayFailToLoad = false;
  });

  await step("it misses nothing until the session ends", async () => {
    await page.locator("#connection", { hasText: "ended" }).waitFor({ timeout: 6 * PATIENCE_MS });
    assert.equal(await tile(page, "state"), "ended");
    assert.equal(parseInt(await tile(page, "iterations"), 10), 400);
    const { iterations } = await get("/submissions/1");
    assert.equal(iterations, 400);
    await page.screenshot({ path: join(out, "submission.png"), fullPage: true });
  });

  await step("the session on record has its report and its winners, whose parameters can be copied", async () => {
    await page.getByRole("link", { name: "Session 1 on record" }).click();
    await shows(page, "Session 1 of p");
    await page.locator("#best-over-time svg:visible, .report svg:visible").first().waitFor();
    await page.locator(".report", { hasText: "Causes" }).waitFor();
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    for (const [name, wanted] of [["Parameters", /^attention-\S+ \w+=\d/], ["Source", /__global__/]]) {
      await page.getByRole("button", { name, exact: true }).first().click();
      await page.waitForFunction(async (pattern) => new RegExp(pattern).test(await navigator.clipboard.readText()), wanted.source);
    }
  });

  await step("its report is saved as HTML and CSV", async () => {
    assert.match(await download(page, "Save as html"), /^<!doctype html>/);
    assert.ok((await download(page, "Save as csv")).split("\n").length > 400);
  });

  await step("its iterations are filtered", async () => {
    await page.getByRole("link", { name: "Its iterations" }).click();
    await shows(page, "Iterations of session 1");
    await page.getByLabel("Verdict").selectOption("improved");
    await page.getByLabel("Case").fill("b1h1s128");
    await page.getByRole("button", { name: "Search" }).click();
    await page.waitForURL(/verdict=improved/);
    await shows(page, "Iterations of session 1");
    const verdicts = await column(page, 5);
    assert.ok(verdicts.length > 0 && verdicts.every((verdict) => verdict === "improved"), String(verdicts));
    assert.ok((await column(page, 4)).every((name) => name === "b1h1s128"));
  });

  await step("they are sorted, and sorted the other way round", async () => {
    await visit(page, "/projects/p/history", "History of p");
    const values = async () => (await column(page, 6)).map((text) => parseFloat(text)).filter((value) => !Number.isNaN(value));
    for (const direction of [1, -1]) {
      await page.getByRole("button", { name: "time", exact: false }).first().click();
      await page.waitForURL(direction === 1 ? /sort=time$/ : /reverse=true/);
      await shows(page, "History of p");
      const found = await values();
      assert.ok(found.length > 10 && found.every((value, place) => place === 0 || (value - found[place - 1]) * direction >= -1e-9), String(found));
    }
  });

  await step("they come in pages", async () => {
    await visit(page, "/projects/p/history", "History of p");
    // A row is an iteration and a case: a page may end between two cases of one iteration.
    const rows = async () => {
      const [iterations, cases] = [await column(page, 2), await column(page, 4)];
      return iterations.map((iteration, place) => `${iteration} ${cases[place]}`);
    };
    const first = await rows();
    await page.getByRole("link", { name: "Next page" }).click();
    await page.getByText("rows 51 to 100").waitFor();
    const second = await rows();
    assert.equal(new Set([...first, ...second]).size, 100, `${first} | ${second}`);
    await page.getByRole("link", { name: "Previous page" }).click();
    await page.getByText("rows 1 to 50").waitFor();
  });

  await step("they are exported, all that match", async () => {
    await visit(page, "/projects/p/history?verdict=improved", "History of p");
    const lines = (await download(page, "Export as CSV")).split("\r\n");
    const rows = JSON.parse(await download(page, "Export as JSON"));
    const { wins } = await get("/projects/p/sessions/1");
    assert.ok(rows.length >= wins && rows.every(({ verdict }) => verdict === "improved"));
    assert.equal(lines.length, rows.length + 1);
  });

  let child = null;
  await step("an iteration has its source, its measurements and the compiler's words", async () => {
    const rows = await get("/projects/p/iterations?origin=move&family=attention-decode&limit=200&verdict=tied");
    // A child may be timed on other cases than its parent, and then there is nothing to compare.
    for (const { iteration } of rows) {
      if ((await get(`/projects/p/iterations/${iteration}/diff`)).cases.length > 0) child ??= iteration;
    }
    await visit(page, `/projects/p/iterations/${child}`, `Iteration ${child} of p`);
    assert.ok((await page.locator("pre.source .keyword").count()) > 20);
    await page.locator("svg.strip").first().waitFor();
    await page.getByText("ptxas info").first().waitFor();
    await page.getByText("Predicted:").waitFor();
    await page.screenshot({ path: join(out, "iteration.png"), fullPage: true });
  });

  await step("a source cannot run", async () => {
    assert.ok((await page.locator("pre.source").innerText()).includes("<script>document.title"));
    assert.equal(await page.locator("main script, main img").count(), 0);
    assert.equal(await page.title(), `Iteration ${child} of p - optloop`);
  });

  await step("its difference from its parent is shown", async () => {
    assert.ok((await page.locator("pre.diff .added").count()) > 0);
    assert.ok((await page.locator("pre.diff .removed").count()) > 0);
  });

  await step("two rows are compared by ticking them, and the parameters of a family are columns that sort", async () => {
    await visit(page, "/projects/p/history?family=attention-decode&case=b1h1s64", "History of p");
    const heading = () => page.locator("thead button", { hasText: "WARPS" });
    const place = async () => (await page.locator("thead th").allInnerTexts()).findIndex((title) => title.startsWith("WARPS")) + 1;
    await heading().click();
    await page.waitForURL(/by=WARPS/);
    await shows(page, "History of p");
    const values = (await column(page, await place())).map(Number);
    assert.ok(values.length > 2 && values.every((value, at) => at === 0 || value >= values[at - 1]), String(values));
    const boxes = page.locator("tbody input[type=checkbox]");
    await boxes.nth(0).check();
    assert.ok(await page.getByRole("button", { name: "Compare the two" }).isDisabled());
    await boxes.nth(1).check();
    await page.getByRole("button", { name: "Compare the two" }).click();
    await shows(page, "Compare in p");
    await page.locator(".error, td").first().waitFor();
    await visit(page, `/projects/p/iterations/${child}`, `Iteration ${child} of p`);
  });

  await step("it is compared with its parent", async () => {
    await page.getByRole("link", { name: "compare", exact: true }).click();
    await shows(page, "Compare in p");
    await page.getByText(/The first takes [\d.]+×/).waitFor();
  });

  await step("two sessions are compared", async () => {
    const id = await submit({ max_iterations: 12 });
    await visit(page, `/submissions/${id}`, `Submission #${id}`);
    await page.locator("#connection", { hasText: "ended" }).waitFor();
    await visit(page, "/projects/p/compare", "Compare in p");
    await page.getByLabel("First").fill("1");
    await page.getByLabel("Second").fill("2");
    await page.getByRole("button", { name: "Compare" }).click();
    await page.locator("td", { hasText: "b1h1s64" }).first().waitFor();
    await page.screenshot({ path: join(out, "compare.png"), fullPage: true });
  });

  await step("a running session is ended from its page", async () => {
    const id = await submit({ budget: "1h" });
    await visit(page, `/submissions/${id}`, `Submission #${id}`);
    await tileBecomes(page, "iterations", (count) => count > 2);
    await page.getByRole("button", { name: "End now" }).click();
    await page.locator("#connection", { hasText: "ended" }).waitFor();
    assert.equal(await tile(page, "state"), "cancelled");
  });

  await step("a refusal is one sentence, and markup in it is text", async () => {
    mayFailToLoad = true;
    await visit(page, "/", "Queue");
    await page.getByLabel("Cases").fill('<img/src=x/onerror="document.title=1">');
    await page.getByRole("button", { name: "Submit" }).click();
    const said = await page.locator(".error").innerText();
    assert.ok(said.includes("<img/src=x"), said);
    assert.equal(await page.locator("main img").count(), 0);
    mayFailToLoad = false;
  });

  await step("numbers that do not exist are answered in a sentence", async () => {
    mayFailToLoad = true;
    for (const view of ["/submissions/999", "/projects/p/iterations/999999", "/projects/nowhere/history"]) {
      await page.goto(`${service.url}/#${view}`);
      await page.locator(".error", { hasText: /no |not / }).waitFor();
    }
    await visit(page, "/nowhere", "There is no such page");
    mayFailToLoad = false;
  });

  let modelled = null;
  await step("a session on a virtual GPU, whose times have no intervals, opens on all pages", async () => {
    const id = await submit({ device: "virtual", cases: ["b1h1s4d4"], max_iterations: 5 });
    await visit(page, `/submissions/${id}`, `Submission #${id}`);
    await page.locator("#connection", { hasText: "ended" }).waitFor({ timeout: 3 * PATIENCE_MS });
    const { session } = await get(`/submissions/${id}`);
    const rows = (await get(`/projects/p/sessions/${session}/iterations?limit=50`)).filter((row) => row.best_ns);
    modelled = rows.map(({ iteration }) => iteration);
    await visit(page, `/projects/p/iterations/${modelled[0]}`, `Iteration ${modelled[0]} of p`);
    await page.locator("svg.strip").first().waitFor();
    assert.equal(await page.locator("svg.strip rect").count(), 0);
    await visit(page, `/projects/p/compare?what=iterations&a=${modelled[0]}&b=${modelled[1]}&case=b1h1s4d4`, "Compare in p");
    await page.getByText("The first takes").waitFor();
    await visit(page, `/projects/p/compare?what=sessions&a=1&b=${session}`, "Compare in p");
    await page.locator("td").first().waitFor();
    await visit(page, `/projects/p/sessions/${session}`, `Session ${session} of p`);
    await page.locator(".report", { hasText: "Causes" }).waitFor();
    await visit(page, "/projects/p/progress", "Progress of p");
    await page.locator("figure svg path").first().waitFor();
  });

  /** Opens the pages of a session of the project `old`, and of an iteration of it. */
  async function opens(session, status) {
    const { id, iteration } = session;
    await visit(page, "/projects/old/sessions", "Sessions of old");
    await page.getByRole("link", { name: `session ${id}`, exact: true }).waitFor();
    await visit(page, `/projects/old/sessions/${id}`, `Session ${id} of old`);
    await page.locator("main", { hasText: status }).waitFor();
    await page.locator(".report h2, .report h3, .report p").first().waitFor();
    await visit(page, `/projects/old/iterations/${iteration}`, `Iteration ${iteration} of old`);
    await visit(page, `/projects/old/history?session=${id}`, `Iterations of session ${id}`);
    await page.locator("tbody tr").first().waitFor();
    await visit(page, "/projects/old/progress", "Progress of old");
    // A flat line has no height, and counts as hidden.
    await page.locator("figure svg path").first().waitFor({ state: "attached" });
    await visit(page, `/projects/old/compare?what=sessions&a=1&b=${id}`, "Compare in old");
    await page.locator("td").first().waitFor();
  }

  const iterationsOf = async (id) => (await get(`/projects/old/sessions/${id}/iterations?limit=50`)).filter((row) => row.best_ns);

  await step("the store of an old release opens on all pages", async () => {
    await opens({ id: 3, iteration: (await iterationsOf(3))[0].iteration }, "finished");
  });

  await step("a killed session opens on all pages", async () => {
    const args = ["--project", old, "start", "--workload", "attention-fp16-d64", "--case", "b1h1s64", "--device", "fake", "--iterations", "400", "--no-commit", "--trust"];
    const child = spawn(optloop, args, { stdio: "ignore" });
    let timed = [];
    for (const end = Date.now() + PATIENCE_MS; timed.length < 3 && Date.now() < end; ) {
      await page.waitForTimeout(50);
      const listed = await get("/projects/old/sessions");
      if (listed.some(({ id }) => id === 4)) timed = await iterationsOf(4);
    }
    await kill(child);
    await opens({ id: 4, iteration: timed[0].iteration }, "killed");
  });

  const views = [
    ["/", "Queue"], ["/submissions/1", "Submission #1"], ["/projects", "Projects"], ["/workers", "Workers"], ["/projects/p/sessions", "Sessions of p"],
    ["/projects/p/sessions/1", "Session 1 of p"], [`/projects/p/iterations/${child}`, `Iteration ${child} of p`],
    [`/projects/p/iterations/${modelled[0]}`, `Iteration ${modelled[0]} of p`], ["/projects/p/progress", "Progress of p"],
    ["/projects/p/history?family=attention-decode", "History of p"], ["/projects/p/history", "History of p"], ["/projects/p/compare?what=sessions&a=1&b=2", "Compare in p"],
  ];

  await step("every page is operated with the keyboard alone", async () => {
    await visit(page, "/projects", "Projects");
    await page.reload();
    await shows(page, "Projects");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.id), "skip");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    const name = () => page.evaluate(() => document.activeElement.textContent);
    for (let tabs = 0; tabs < 20 && (await name()) !== "p"; tabs += 1) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await shows(page, "Sessions of p");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    for (let tabs = 0; tabs < 20 && (await name()) !== "session 1"; tabs += 1) await page.keyboard.press("Tab");
    for (let tabs = 0; tabs < 20 && (await name()) !== "session 1"; tabs += 1) await page.keyboard.press("Tab");
    const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
    assert.notEqual(outline, "none", "the focus cannot be seen");
    await page.keyboard.press("Enter");
    await shows(page, "Session 1 of p");
  });

  for (const [name, options] of [["light", { colorScheme: "light" }], ["dark", { colorScheme: "dark" }], ["400 px wide", { viewport: PHONE }], ["1400 px wide", { viewport: WIDE }]]) {
    await step(`no page has a serious mistake of accessibility, and none is too wide: ${name}`, async () => {
      const other = await newPage(browser, options);
      for (const [view, title] of views) {
        await visit(other, view, title);
        if (view === "/projects/p/sessions/1") await other.locator(".report", { hasText: "Causes" }).waitFor();
        await accessible(other, `${view}, ${name}`);
        const [content, window] = await other.evaluate(() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]);
        const sideways = name.startsWith("1400") && view.includes("/history") ? await other.locator(".scroll").evaluate((it) => it.scrollWidth - it.clientWidth) : 0;
        if (sideways > 0) mistakes.push(`${view}, ${name}: its table scrolls sideways by ${sideways} px`);
        if (content > window) mistakes.push(`${view}, ${name}: ${content} px in a window of ${window} px`);
        if (name.endsWith("wide")) await other.screenshot({ path: join(out, `${title.replaceAll(/[^\w]+/g, "-").toLowerCase()}-${parseInt(name, 10)}.png`), fullPage: true });
      }
      await other.context().close();
    });
  }

  await step("Back leads to the page before", async () => {
    await visit(page, "/projects", "Projects");
    await page.getByRole("link", { name: "p", exact: true }).click();
    await shows(page, "Sessions of p");
    await page.goBack();
    await shows(page, "Projects");
  });

  await step("with tokens, a page asks for one, and a wrong one does not help", async () => {
    mayFailToLoad = true;
    await kill(service.child);
    const made = spawnSync(optloop, ["serve", "--new-token", "reader", "--scope", "read"], { encoding: "utf8" });
    const file = join(project, ".optloop", "tokens");
    writeFileSync(file, made.stdout, { mode: 0o600 });
    service = await serve(port, ["--tokens", file]);
    const other = await newPage(browser);
    await other.goto(`${service.url}/`);
    await shows(other, "Log in");
    await other.getByLabel("Token").fill("wrong");
    await other.getByRole("button", { name: "Log in" }).click();
    await shows(other, "Log in");
    await other.getByLabel("Token").fill(/optloop_\S+/.exec(made.stderr)[0]);
    await other.getByRole("button", { name: "Log in" }).click();
    await shows(other, "Queue");
    await other.getByLabel("Device").fill("fake");
    await other.getByRole("button", { name: "Submit" }).click();
    await other.locator(".error", { hasText: "scope" }).waitFor();
    await accessible(other, "log in");
    await other.reload();
    await other.getByRole("button", { name: "Log out" }).click();
    await shows(other, "Log in");
    await other.context().close();
    mayFailToLoad = false;
  });
} catch (error) {
  await page.screenshot({ path: join(out, "failed.png"), fullPage: true }).catch(() => {});
  console.error(`step ${steps}: ${error.message}`);
  for (const mistake of mistakes) console.error(`  ${mistake}`);
  process.exitCode = 1;
} finally {
  await browser.close();
  await kill(service.child).catch(() => {});
}
