// The page: three clients side by side or a single one, with the actions, the tour and the timeline.

import { Client } from "./client.js";
import { Pane, element } from "./pane.js";
import { qrImage } from "./qr.js";
import { acceptShare, setPermission, shareZone, stopSharing } from "./sharing.js";
import { Timeline } from "./timeline.js";
import { Tour } from "./tour.js";
import { World, until } from "./world.js";

const BOARD_SECONDS = 5;
const address = new URL(location.href);
const asked = (name) => address.searchParams.get(name) ?? undefined;
const place = {
  container: asked("container") ?? "iCloud.org.zonecast.demo",
  environment: /** @type {"development" | "production"} */ (asked("environment") ?? "development"),
  apiToken: asked("apiToken"),
  // Only a relay in `--dev` accepts calls without an API token. It accepts any user name.
  isDev: !asked("apiToken"),
  boardType: "Board",
};
const isAlone = Boolean(asked("user"));
const cast = isAlone
  ? [[asked("user"), asked("device") ?? "phone"]] : [["alice", "phone"], ["alice", "laptop"], ["bob", "tablet"]];

/** @param {string} id @returns {HTMLElement & { disabled?: boolean }} */
const $ = (id) => document.getElementById(id);
const listeners = new Set();
const timeline = isAlone ? undefined
  : new Timeline($("timeline"), $("detail"), ["alice/phone", "alice/laptop", "relay", "bob/tablet"]);

/** Receives every step of every client. */
function journal(entry) {
  const delay = world.heed(entry);
  if (delay !== undefined) entry.delay = delay;
  timeline?.add(entry);
  if (entry.kind === "shows") panes.find((pane) => pane.client.name === entry.who)?.mark(entry.name);
  for (const listener of listeners) listener(entry);
}

function say(text, isBad = false) {
  $("message").textContent = text;
  $("message").classList.toggle("bad", isBad);
}
const complain = (error) => say(error.message ?? String(error), true);

const clients = cast.map(([user, device]) => new Client(place, user, device, journal));
const world = new World(place, clients);
const panes = clients.map((client) => new Pane(client, complain));
const [phone, , tablet] = clients;

for (const pane of panes) {
  pane.ownerName = (zone) => clients.find((client) => client.userID === zone.zoneID.ownerRecordName)?.user;
  $("panes").append(pane.root);
}

/** Takes the lock of a client's store. Two clients on one store would overwrite each other's changes. */
async function claim(client) {
  if (!navigator.locks) return true;
  return new Promise((resolve) => {
    // After a reload the old page may hold the lock for a moment.
    const signal = /** @type {any} */ (AbortSignal).timeout(3_000);
    navigator.locks.request(client.database, { signal }, () => {
      resolve(true);
      // The lock is held until the page is closed.
      return new Promise(() => {});
    }).catch(() => resolve(false));
  });
}

async function begin() {
  $("place").textContent = `${place.container}, ${place.environment}`;
  document.body.classList.toggle("alone", isAlone);
  if (isAlone) document.title = `${cast[0].join(" / ")} – Zonecast`;
  if (!(await Promise.all(clients.map(claim))).every(Boolean)) {
    say("This demo is already open in another window of this browser. Close that window, then reload this page.", true);
    for (const button of document.querySelectorAll("button")) button.disabled = true;
    return;
  }
  await Promise.all(clients.map((client) => client.open()));
  followBoard();
  if (isAlone) return;
  prepareActions();
  prepareCode();
  await prepareRestart();
  document.body.dataset.ready = "yes";
}

function followBoard() {
  const poll = async () => {
    for (const client of clients) {
      if (client.isLive && client.isSetUp) await client.board.poll().catch(() => {});
    }
    setTimeout(poll, BOARD_SECONDS * 1000);
  };
  poll();
}

// Actions

let means = {};
let isTouring = false;

function permission() {
  const others = phone.zones.get("Notes")?.share?.participants.filter((one) => one.type !== "OWNER") ?? [];
  return others[0]?.permission;
}

function showActions() {
  const now = permission();
  $("share").disabled = isTouring || Boolean(now) || !tablet.userID;
  $("permission").disabled = $("stop").disabled = isTouring || !now;
  $("permission").textContent = now === "READ_WRITE" ? "Make read-only" : "Make read-write";
  for (const id of ["run-tour", "reset", "restart"]) $(id).disabled = isTouring;
}

const actions = {
  "run-tour": runTour,
  async share() {
    const share = await shareZone(phone, tablet.userID, "READ_ONLY");
    await acceptShare(tablet, share.url ?? share.shortGUID);
    say("Bob can read alice's notes but not edit them: the relay refuses edits from his tablet.");
  },
  async permission() {
    const next = permission() === "READ_WRITE" ? "READ_ONLY" : "READ_WRITE";
    await setPermission(phone, next);
    say(next === "READ_WRITE" ? "Bob may write now." : "Bob may only read now.");
  },
  async stop() {
    await stopSharing(phone);
    say("No longer shared: alice's notes are removed from bob's tablet.");
  },
  async restart() {
    say("The relay is killed and restarted. Keep editing: nothing is lost.");
    await means.restart();
    say("The relay is running again.");
  },
  async reset() {
    say("Resetting …");
    for (const client of clients) if (!client.isOnline) client.goOnline();
    await stopSharing(phone).catch(() => {});
    await world.clear();
    for (const client of clients) await client.reset();
    timeline.clear();
    $("tour").hidden = true;
    say("All three clients are reset.");
  },
};

function prepareActions() {
  for (const [id, act] of Object.entries(actions)) {
    $(id).addEventListener("click", () => act().catch(complain).finally(showActions));
  }
  for (const client of clients) client.addEventListener("change", showActions);
  const keys = { s: "share", w: "permission", l: "stop", k: "restart", t: "run-tour" };
  let current = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /** @type {Element} */ (event.target).matches("input[type=text]")) return;
    const pane = panes[Number(event.key) - 1];
    if (pane) {
      current = Number(event.key) - 1;
      pane.root.focus();
    } else if (event.key === "a") {
      event.preventDefault();
      panes[current].focusAdd();
    } else if (event.key === "o") {
      panes[current].toggle();
    } else if (keys[event.key] && !$(keys[event.key]).hidden) {
      $(keys[event.key]).click();
    }
  });
  for (const [index, pane] of panes.entries()) pane.root.addEventListener("focusin", () => { current = index; });
}

async function runTour() {
  isTouring = true;
  showActions();
  $("tour").hidden = false;
  $("checks").replaceChildren();
  $("verdict").textContent = "";
  say("The tour begins with empty zones.");
  const tour = new Tour(world, {
    restart: means.restart, boardSeconds: BOARD_SECONDS,
    listen: (listener) => listeners.add(listener), unlisten: (listener) => listeners.delete(listener),
  });
  const marks = { runs: "…", held: "✔", failed: "✘" };
  try {
    const held = await tour.play(({ number, title, state, text }) => {
      if (number === undefined) {
        $("verdict").textContent = `${marks[state]} ${text}`;
        $("verdict").className = state;
        return;
      }
      say(state === "runs" ? `Scene ${number}: ${title}` : "");
      const line = $("checks").children[number - 1] ?? $("checks").appendChild(element("li"));
      line.className = state;
      line.replaceChildren(element("b", {}, `${marks[state]} ${number} ${title}`), text && `: ${text}`);
    });
    document.body.dataset.tour = held ? "held" : "failed";
  } catch (error) {
    document.body.dataset.tour = "failed";
    throw error;
  } finally {
    isTouring = false;
    showActions();
  }
}

/** Sets up the restart of the relay, which a relay in `--dev` may offer. */
async function prepareRestart() {
  const ask = async () => (await fetch("means.json", { cache: "no-store" })).json();
  const known = await ask().catch(() => ({}));
  if (!known.restart) return;
  means.restart = async () => {
    const before = (await ask()).run;
    await fetch("restart", { method: "POST", headers: { "X-Zonecast-Demo": "restart" } }).catch(() => {});
    await until("the relay to restart", async () => {
      const now = await ask().catch(() => undefined);
      return now && now.run !== before;
    }, 30, 200);
  };
  $("restart").hidden = false;
}

/** Offers a QR code for other devices, unless the page's address is local to this machine. */
function prepareCode() {
  if (["localhost", "127.0.0.1", "[::1]"].includes(location.hostname)) return;
  const one = new URL(location.href);
  one.searchParams.set("user", "alice");
  one.searchParams.set("device", "pocket");
  $("phone").hidden = false;
  $("phone").addEventListener("click", () => {
    const isOpen = $("code").hidden;
    $("code").hidden = !isOpen;
    $("phone").setAttribute("aria-expanded", String(isOpen));
    const text = element("p", {}, "A fourth client, alice/pocket, on another device: ", element("a", { href: one.href }, one.href));
    if (isOpen) $("code").replaceChildren(qrImage(one.href), text);
  });
}

begin().catch(complain);
