// The scenes of the tour of `zonecast demo`, played with the clients of this page. Each scene ends with a check.

import { acceptShare, removeParticipant, setPermission, shareZone, stopSharing } from "./sharing.js";
import { middle, until } from "./world.js";

/** Plays the scenes. Each scene returns its result as a text for the user. */
export class Tour {
  /**
   * @param {import("./world.js").World} world
   * @param {{ restart?: () => Promise<void>, boardSeconds: number, pacer: import("./pacer.js").Pacer, listen?: (listener: (entry: any) => void) => any,
   *   unlisten?: (listener: (entry: any) => void) => any }} means `restart` is there if the demo may restart the relay.
   */
  constructor(world, means) {
    this.world = world;
    this.means = means;
    const [phone, laptop, tablet] = world.clients;
    this.phone = phone;
    this.laptop = laptop;
    this.tablet = tablet;
    /** @type {[title: string, what: string, play: () => Promise<string>][]} */
    this.scenes = [
      ["Two devices", "Alice writes on one device. The relay tells the other one, which fetches the note.",
        () => this.twoDevices()],
      ["Offline edits survive a restart", "Alice's laptop goes offline, edits, and is closed and opened again.",
        () => this.offlineEdits()],
      ["Conflict", "Both of Alice's devices edit the same note while one of them is offline.", () => this.conflict()],
      ["Deletion", "A note is deleted while the laptop is offline. The laptop learns of it later.", () => this.deletion()],
      ["Shared read-only", "Bob may only read Alice's notes. He edits one: the relay refuses, his tablet puts it back.",
        () => this.readOnlyShare()],
      ["Made read-write", "Alice lets Bob write. His note reaches both of her devices.", () => this.madeReadWrite()],
      ["A participant removed", "Alice removes Bob. Her notes disappear from his tablet.", () => this.participantRemoved()],
      ["Shared again, then stopped", "Alice stops sharing while Bob is offline.", () => this.sharingStopped()],
      ["The public board", `The board has no notices: devices ask for it every ${means.boardSeconds} s.`,
        () => this.publicBoard()],
    ];
    if (means.restart) {
      this.scenes.push(["The relay is killed", "Three devices write while the relay is killed and started again.",
        () => this.killedRelay()]);
    }
  }

  /**
   * Plays all scenes; returns whether every check held.
   * @param {(line: { number?: number, title: string, state: "runs" | "held" | "failed", text: string }) => void} tell
   * Without a number, the line is about the whole tour.
   */
  async play(tell) {
    let held = 0;
    await this.begin();
    for (const [index, [title, what, scene]] of this.scenes.entries()) {
      const number = index + 1;
      if (index) await this.means.pacer.betweenScenes();
      tell({ number, title, state: "runs", text: what });
      try {
        const text = await scene();
        held += 1;
        tell({ number, title, state: "held", text });
      } catch (error) {
        tell({ number, title, state: "failed", text: error.message });
        await this.recover();
      }
    }
    return this.conclude(held, tell);
  }

  /** Empties the zones of all users, so that a second tour does not count notes of the first. */
  async begin() {
    await this.recover();
    await this.world.clear();
    this.world.delays = [];
  }

  /** Undoes what an unfinished scene may have left: offline clients and a share. */
  async recover() {
    for (const client of this.world.clients) if (!client.isOnline) client.goOnline();
    await stopSharing(this.phone).catch(() => {});
  }

  async conclude(held, tell) {
    const count = this.scenes.length;
    const title = "All together";
    try {
      const verdict = await this.world.settle();
      const facts = [
        `${this.world.clients.length} mirrors equal the relay`, `${verdict.lost} lost`, `${verdict.duplicated} duplicated`,
        `p50 ${Math.round(middle(this.world.delays))} ms from save to shown`, `${held} of ${count} scenes passed`,
      ];
      tell({ title, state: held === count ? "held" : "failed", text: facts.join(" · ") });
      return held === count;
    } catch (error) {
      tell({ title, state: "failed", text: `${error.message} ${held} of ${count} scenes passed.` });
      return false;
    }
  }

  #shows(client, name, title, done = false, zone = undefined) {
    return client.notes(zone).some((note) => note.name === name && note.title === title && note.done === done);
  }

  async twoDevices() {
    const { world, phone, laptop } = this;
    world.isCounting = true;
    const titles = [
      "Buy milk", "Call Bob", "Water the plants", "Book a train", "Pay the rent", "Return the books", "Sow tomatoes",
    ];
    for (const [index, title] of titles.entries()) {
      const [from, to] = index % 2 ? [laptop, phone] : [phone, laptop];
      const name = world.add(title, from);
      await until(`${to.name} to show “${title}”`, () => this.#shows(to, name, title));
      await this.means.pacer.step(120);
    }
    world.isCounting = false;
    world.add("Feed the cat", this.tablet);
    await world.settle();
    return `mirrors equal, p50 ${Math.round(middle(world.delays))} ms from save on one to shown on the other`;
  }

  async offlineEdits() {
    const { world, phone, laptop } = this;
    const known = laptop.notes()[0];
    laptop.goOffline();
    const added = world.add("Written on the train", laptop);
    laptop.change(known.name, { title: `${known.title}, 2 litres` });
    await laptop.restart();
    if (laptop.pending !== 2 || !this.#shows(laptop, added, "Written on the train")) {
      throw new Error(`After the restart ${laptop.pending} changes were pending instead of 2.`);
    }
    await this.means.pacer.step(600);
    laptop.goOnline();
    await until(`${laptop.name} to have nothing pending`, () => laptop.pending === 0);
    await until(`${phone.name} to show the note`, () => this.#shows(phone, added, "Written on the train"));
    await world.settle();
    return "2 pending before the restart and after it, 0 pending once back online, mirrors equal";
  }

  async conflict() {
    const { world, phone, laptop } = this;
    const name = world.add("Pack for the trip", phone);
    await until(`${laptop.name} to show the note`, () => this.#shows(laptop, name, "Pack for the trip"));
    // Edits of different fields.
    phone.goOffline();
    phone.change(name, { title: "Pack for the trip, warm clothes" });
    laptop.change(name, { done: true });
    await until(`${laptop.name} to have nothing pending`, () => laptop.pending === 0);
    await this.means.pacer.step(400);
    phone.goOnline();
    await until("both edits on both devices", () =>
      [phone, laptop].every((client) => this.#shows(client, name, "Pack for the trip, warm clothes", true)));
    // Edits of the same field.
    phone.goOffline();
    phone.change(name, { title: "Pack: said the phone" });
    laptop.change(name, { title: "Pack: said the laptop" });
    await until(`${laptop.name} to have nothing pending`, () => laptop.pending === 0);
    await this.means.pacer.step(400);
    phone.goOnline();
    await until("one title on both devices", () =>
      [phone, laptop].every((client) => this.#shows(client, name, "Pack: said the phone", true)));
    await world.settle();
    return "different fields: both kept; same field: the edit that arrives last wins (policy: mine over theirs)";
  }

  async deletion() {
    const { world, phone, laptop } = this;
    const name = world.add("Not needed after all", phone);
    await until(`${laptop.name} to show the note`, () => this.#shows(laptop, name, "Not needed after all"));
    laptop.goOffline();
    world.remove(name, phone);
    await until(`${phone.name} to have nothing pending`, () => phone.pending === 0);
    await this.means.pacer.step(400);
    if (!this.#shows(laptop, name, "Not needed after all")) {
      throw new Error(`The offline ${laptop.name} lost the note before it could learn of the deletion.`);
    }
    laptop.goOnline();
    await until(`the note to disappear from ${laptop.name}`, () => !laptop.notes().some((note) => note.name === name));
    await world.settle();
    return `deleted everywhere; the tombstone reached ${laptop.name} when it came back`;
  }

  /** Alice's zone on bob's tablet; `undefined` before he has accepted the share. */
  get #sharedZone() { return this.tablet.sharedZones.find((zone) => zone.zoneID.ownerRecordName === this.phone.userID); }

  async readOnlyShare() {
    const { world, phone, tablet } = this;
    const share = await shareZone(phone, tablet.userID, "READ_ONLY");
    await acceptShare(tablet, share.url ?? share.shortGUID);
    await until(`${tablet.name} to show alice's notes`, () =>
      this.#sharedZone && tablet.notes(this.#sharedZone.key).length === phone.notes().length);
    await until(`${tablet.name} to learn that it may only read`, () => tablet.isReadOnly(this.#sharedZone.key));
    const [note] = tablet.notes(this.#sharedZone.key);
    let refusals = 0;
    const count = (entry) => { if (entry.kind === "refused" && entry.who === tablet.name) refusals += 1; };
    this.means.listen?.(count);
    tablet.change(note.name, { title: "Bob was here" }, this.#sharedZone.key);
    await until("the refused edit to be rolled back", () =>
      this.#shows(tablet, note.name, note.title, note.done, this.#sharedZone.key) && tablet.pending === 0);
    this.means.unlisten?.(count);
    if (refusals !== 1) throw new Error(`The relay refused ${refusals} edits instead of 1.`);
    const after = world.add("Still in step", phone);
    await until("the sync to continue", () => this.#shows(tablet, after, "Still in step", false, this.#sharedZone.key));
    await world.settle();
    return "1 write refused and rolled back; the sync continues";
  }

  /** Adds a note to alice's zone as bob, and waits until both of her devices show it. */
  async #addAsBob(title) {
    const { name } = this.tablet.add(title, { zone: this.#sharedZone.key });
    this.world.expected.get("alice")?.add(name);
    for (const client of [this.phone, this.laptop]) {
      await until(`${client.name} to show bob's note`, () => this.#shows(client, name, title));
    }
  }

  async #untilBobMayWrite() {
    const { phone, tablet } = this;
    await until(`${tablet.name} to learn that it may write`, () => {
      const zone = this.#sharedZone;
      return zone?.share && !tablet.isReadOnly(zone.key) && tablet.notes(zone.key).length === phone.notes().length;
    });
  }

  /** Waits until bob's tablet has none of alice's notes, and checks that all other notes are still there. */
  async #untilBobHasNothing(zone, owned) {
    const { phone, laptop, tablet, world } = this;
    const count = phone.notes().length;
    await until(`alice's notes to disappear from ${tablet.name}`, () =>
      tablet.sharedZones.length === 0 && tablet.notes(zone).length === 0);
    await world.settle();
    if ([phone, laptop].some((client) => client.notes().length !== count) || tablet.notes().length !== owned) {
      throw new Error("Notes disappeared that are not part of the share.");
    }
    return count;
  }

  async madeReadWrite() {
    await setPermission(this.phone, "READ_WRITE");
    await this.#untilBobMayWrite();
    await this.#addAsBob("Bob brings the cake");
    await this.world.settle();
    return "the permission arrived with a notice; Bob's note reached both of Alice's devices";
  }

  async participantRemoved() {
    const { phone, tablet } = this;
    const [zone, owned] = [this.#sharedZone.key, tablet.notes().length];
    await removeParticipant(phone, tablet.userID);
    const count = await this.#untilBobHasNothing(zone, owned);
    return `Alice's notes were removed from Bob's tablet at once; she has her ${count}, Bob his own ${owned}`;
  }

  async sharingStopped() {
    const { phone, tablet } = this;
    const share = await shareZone(phone, tablet.userID, "READ_WRITE");
    await acceptShare(tablet, share.url ?? share.shortGUID);
    await this.#untilBobMayWrite();
    await this.#addAsBob("Bob carries the canoe");
    const [zone, owned] = [this.#sharedZone.key, tablet.notes().length];
    // Bob is offline while alice stops sharing. He learns of it when he is back.
    tablet.goOffline();
    await stopSharing(phone);
    await this.means.pacer.step(600);
    tablet.goOnline();
    const count = await this.#untilBobHasNothing(zone, owned);
    return `Bob was offline: his tablet has none of Alice's notes; she has all ${count}, including Bob's`;
  }

  async publicBoard() {
    const { world, tablet } = this;
    const name = await tablet.board.post("Lost: one umbrella");
    const limit = this.means.boardSeconds + 120;
    const has = (client) => client.board.shown.some((post) => post.name === name);
    await until("every board to show the post", () => world.clients.every(has), limit);
    await tablet.board.post("Found, thank you", { name, isGone: true });
    await until("every board to hide the post", () => !world.clients.some(has), limit);
    return "equal after one poll; hidden again by a soft delete, since polls do not see deletions";
  }

  async killedRelay() {
    const { world } = this;
    let restarted;
    for (let number = 0; number < 20; number += 1) {
      for (const client of world.clients) world.add(`Write ${number} by ${client.device}`, client);
      if (number === 8) restarted = this.means.restart();
      await this.means.pacer.step(25);
    }
    const pending = world.clients.reduce((sum, client) => sum + client.pending, 0);
    await restarted;
    await world.settle();
    return `60 writes, ${pending} of them pending while the relay was down; 0 lost, 0 duplicated`;
  }
}
