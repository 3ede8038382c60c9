/// Checks of `zonecast.js` and of the demo's functions, run in a browser.
enum ClientChecks {
    /// The body of an async function that collects failed checks in `faults`.
    ///
    /// Another program has read the QR codes whose digests are checked.
    static let script = #"""
        const { Container, Notices, RelayError, afterClose, field, filter, randomName, values } =
          await import("/zonecast.js");
        const { merge, tokenNumber } = await import("/demo/notes.js");
        const { correction, qrCode } = await import("/demo/qr.js");
        const { Client } = await import("/demo/client.js");
        const faults = [];
        const written = (value) => JSON.stringify(value);
        const check = (what, is, wanted) => {
          if (written(is) !== written(wanted)) faults.push(`${what}: ${written(is)} and not ${written(wanted)}`);
        };
        const refusal = async (call) => {
          try { await call; } catch (error) { return error; }
          return new RelayError({ serverErrorCode: "NONE" });
        };

        // Values.
        const day = new Date(1795216898607);
        const plain = { a: "x", b: 2, c: 2.5, d: true, e: day, f: new Uint8Array([0, 255]), g: ["p"], h: [1, 1.5], i: null };
        const wire = Object.fromEntries(Object.entries(plain).map(([name, value]) => [name, field(value)]));
        check("types", Object.values(wire).map((one) => one.type), [
          "STRING", undefined, "DOUBLE", "INT64", "TIMESTAMP", "BYTES", "STRING_LIST", "DOUBLE_LIST", undefined,
        ]);
        check("back again", values({ fields: wire }), { ...plain, d: 1, i: null });
        check("reference", field({ recordName: "r" }), { value: { action: "NONE", recordName: "r" }, type: "REFERENCE" });
        check("empty list", field([]), { value: [] });
        check("as on the wire", field({ value: 1, type: "DOUBLE" }), { value: 1, type: "DOUBLE" });
        check("filter", filter("n", "IN", ["a"]).fieldValue.type, "STRING_LIST");
        check("whole numbers", [field(2), field([1, 2])], [{ value: 2 }, { value: [1, 2] }]);
        check("whole numbers of a filter", filter("n", "IN", [1, 2]).fieldValue, { value: [1, 2], type: "INT64_LIST" });
        check("more than an integer holds", field(1e20).type, "DOUBLE");

        // Reactions to close codes.
        check("first back-off", afterClose(1006, 0, undefined, 0.5), { action: "reconnect", delay: 250 });
        check("longest back-off", afterClose(1001, 40, undefined, 1).delay, 60000);
        check("as promised", afterClose(1012, 3, 2, 0).delay, 2000);
        check("our fault", afterClose(1008, 0, undefined, 0.1).delay, 60000);
        for (const code of [4400, 4401, 4403, 4409, 4449]) check(`stop at ${code}`, afterClose(code, 0, 1, 1).action, "stop");
        check("renew", afterClose(4450, 0, undefined, 1).action, "renew");
        check("too many", afterClose(4451, 0, undefined, 1).action, "reconnect");

        // Calls to a fake relay.
        const answers = [];
        const asked = [];
        const fake = new Container({
          url: "http://relay.invalid", container: "iCloud.x", webAuthToken: "a+/=", deviceID: "d",
          fetch: async (address, options) => {
            asked.push({ address, ...options });
            const next = answers.shift();
            if (next instanceof Error) throw next;
            return new Response(next.text ?? JSON.stringify(next.body), { status: next.status ?? 200, headers: next.headers });
          },
        });
        answers.push({ status: 429, body: { serverErrorCode: "THROTTLED", reason: "slow", retryAfter: "0.01" } });
        answers.push({ body: { zones: [] }, headers: { "X-Apple-CloudKit-Web-Auth-Token": "next" } });
        check("repeated when asked to", await fake.privateDatabase.zones(), []);
        check("two calls", asked.length, 2);
        check("token escaped", asked[0].address.split("?")[1], "ckWebAuthToken=a%2B%2F%3D");
        check("device named", asked[0].headers["X-Zonecast-Device-ID"], "d");
        check("token followed", fake.webAuthToken, "next");
        answers.push(new TypeError("no network"));
        const lost = await refusal(fake.privateDatabase.save({ recordType: "T" }));
        check("no answer", [lost.serverErrorCode, lost.isPassing, asked.length], ["NETWORK_ERROR", true, 3]);
        // A repeated call keeps its operation ID until there is an answer.
        const lastID = () => JSON.parse(asked.at(-1).body).operationID;
        const lostID = lastID();
        check("named", typeof lostID, "string");
        answers.push({ body: { records: [{ recordName: "made" }] } });
        await fake.privateDatabase.save({ recordType: "T" });
        check("a repeat", lastID(), lostID);
        answers.push({ status: 502, body: "a proxy's page" });
        await refusal(fake.privateDatabase.save({ recordType: "T" }));
        check("another write", lastID() === lostID, false);
        const proxyID = lastID();
        answers.push({ status: 429, body: { serverErrorCode: "THROTTLED", reason: "slow" } });
        await refusal(fake.privateDatabase.save({ recordType: "T" }));
        answers.push({ status: 503, body: { serverErrorCode: "TRY_AGAIN_LATER", reason: "busy", retryAfter: 0.01 } });
        answers.push({ body: { records: [{ recordName: "made" }] } });
        await fake.privateDatabase.save({ recordType: "T" });
        const ids = asked.slice(-3).map((one) => JSON.parse(one.body).operationID);
        check("a repeat after a refusal, and of the module's own", ids, [proxyID, proxyID, proxyID]);
        // After a fetch of the record, the same call is a new write.
        const force = [{ operationType: "forceUpdate", record: { recordName: "r", recordType: "T", fields: { n: 1 } } }];
        answers.push(new TypeError("no network"), { body: { records: [{ recordName: "r" }] } }, { body: { records: [] } });
        await refusal(fake.privateDatabase.modify(force));
        const forceID = lastID();
        await fake.privateDatabase.fetch("r");
        await fake.privateDatabase.modify(force);
        check("after a look", lastID() === forceID, false);
        // A creation keeps its operation ID after its record was seen in a list.
        answers.push(new TypeError("no network"), { body: { zones: [{ records: [{ recordName: "m" }] }] } }, { body: { records: [] } });
        const make = () => fake.privateDatabase.saveAll([{ recordName: "m", recordType: "T" }]);
        await refusal(make());
        const makeID = lastID();
        await fake.privateDatabase.zoneChanges("Notes");
        await make();
        check("after a list", lastID(), makeID);
        answers.push({ status: 400, body: { serverErrorCode: "BAD_REQUEST", reason: "r", ckErrorCode: "CHANGE_TOKEN_EXPIRED" } });
        check("expired", (await refusal(fake.privateDatabase.databaseChanges("old"))).isTokenExpired, true);
        answers.push({ body: { records: [{ recordName: "r", serverErrorCode: "CONFLICT", serverRecord: { recordName: "r" } }] } });
        const conflict = await refusal(fake.privateDatabase.save({ recordName: "r", recordChangeTag: "1", fields: { n: 1 } }));
        check("conflict", [conflict.serverErrorCode, conflict.serverRecord], ["CONFLICT", { recordName: "r" }]);
        check("update by tag", JSON.parse(asked.at(-1).body).operations, [{
          operationType: "update",
          record: { recordName: "r", recordChangeTag: "1", fields: { n: { value: 1 } } },
        }]);
        answers.push({ body: { results: [{ serverErrorCode: "NOT_FOUND", reason: "gone" }] } });
        check("shares", (await fake.acceptShares(["https://h/share/c/e/a~b#Title"]))[0].serverErrorCode, "NOT_FOUND");
        check("link", JSON.parse(asked.at(-1).body).shortGUIDs[0].value, "a~b");
        const leave = () => fake.sharedDatabase.deleteZones([{ zoneName: "Trip", ownerRecordName: "_o" }]);
        answers.push(new TypeError("no network"), { body: { results: [] } }, { body: { zones: [] } });
        await refusal(leave());
        const leaveID = lastID();
        await fake.acceptShares(["https://h/share/c/e/a~b"]);
        await leave();
        check("left again", lastID() === leaveID, false);

        answers.push({ body: { tokens: [{ recordName: "r", url: "http://relay.invalid/u" }] } }, { status: 413, text: "<html>" });
        const unsent = await refusal(fake.privateDatabase.uploadAsset({ recordType: "F" }, "f", new Uint8Array(1)));
        check("a proxy's page for a file", unsent.serverErrorCode, "NETWORK_ERROR");

        // A renewed token belongs to the user who asked, and a call is not repeated under another user.
        const held = [];
        const turns = new Container({
          url: "http://relay.invalid", container: "iCloud.x", webAuthToken: "alice-1",
          fetch: (address) => new Promise((resolve) => held.push({ address, resolve })),
        });
        const late = turns.privateDatabase.zones();
        turns.setWebAuthToken("bob-1");
        const fresh = { headers: { "X-Apple-CloudKit-Web-Auth-Token": "alice-2" } };
        held[0].resolve(new Response(JSON.stringify({ zones: [] }), fresh));
        await late;
        check("whose token", turns.webAuthToken, "bob-1");
        const begun = refusal(turns.privateDatabase.zones());
        turns.setWebAuthToken("carol-1");
        const slow = { serverErrorCode: "THROTTLED", reason: "slow", retryAfter: 0.01 };
        held[1].resolve(new Response(JSON.stringify(slow), { status: 429 }));
        const repeated = new Promise((resolve) => setTimeout(() => resolve({ serverErrorCode: "REPEATED" }), 2000));
        check("not repeated for another user", (await Promise.race([begun, repeated])).serverErrorCode, "THROTTLED");
        check("asked twice", held.length, 2);

        // Merging.
        const base = { title: "a", done: false };
        check("different fields", merge(base, { title: "b", done: false }, { title: "a", done: true }),
          { note: { title: "b", done: true }, lost: [] });
        check("same field", merge(base, { title: "b", done: false }, { title: "c", done: false }),
          { note: { title: "b", done: false }, lost: ["title"] });
        check("no ancestor", merge(null, base, base), { note: base, lost: [] });
        check("no token", tokenNumber(undefined), "–");

        // QR codes: the standard's example of error correction, and codes that a reader has read.
        check("correction", correction([16, 32, 12, 86, 97, 128, 236, 17, 236, 17, 236, 17, 236, 17, 236, 17], 10),
          [165, 36, 212, 193, 237, 54, 199, 135, 44, 85]);
        const digest = async (text) => {
          const dots = new TextEncoder().encode(qrCode(text).map((row) => row.map(Number).join("")).join("\n"));
          const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", dots));
          return Array.from(hash.slice(0, 6), (byte) => byte.toString(16).padStart(2, "0")).join("");
        };
        check("code of version 4", await digest("http://192.168.1.20:8080/demo/?user=alice&device=phone"), "4b5fd2481be9");
        check("code of version 10", await digest("x".repeat(200)), "64e9db0f7dcf");
        check("too long", (() => { try { qrCode("x".repeat(300)); } catch (error) { return error.name; } return "fits"; })(), "RangeError");

        // With a real relay.
        const user = `dev-check-${randomName()}`;
        const device = (deviceID) => new Container({ container: "iCloud.org.zonecast.checks", webAuthToken: user, deviceID });
        const [one, two] = [device("one"), device("two")];
        const { privateDatabase: mine } = one;
        await mine.saveZones(["Notes"]);
        await mine.subscribe();
        const first = await mine.save({ recordType: "Note", recordName: "n", fields: { title: "a", at: day } }, { zone: "Notes" });
        check("saved", [first.recordName, values(first).title, values(first).at], ["n", "a", day]);
        const { syncToken } = await mine.databaseChanges();
        const heard = [];
        const next = (target, type) => new Promise((resolve, reject) => {
          target.addEventListener(type, (event) => resolve(event.detail), { once: true });
          setTimeout(() => reject(new Error(`waited 120 s for ${type}`)), 120_000);
        });
        const notices = new Notices(two, () => ({ private: syncToken }));
        notices.addEventListener("notice", (event) => heard.push(event.detail));
        notices.start();
        check("ready", (await next(notices, "ready")).subscriptions, ["private-changes"]);
        check("nothing new", heard.length, 0);
        const told = next(notices, "notice");
        const second = await mine.save({ ...first, fields: { title: "b" } }, { zone: "Notes" });
        check("told of the zone", (await told).ck.met.zid, "Notes");
        const stale = await refusal(mine.save({ ...first, fields: { title: "c" } }, { zone: "Notes" }));
        check("stale", [stale.serverErrorCode, stale.serverRecord?.recordChangeTag], ["CONFLICT", second.recordChangeTag]);
        await two.privateDatabase.save({ ...second, fields: { title: "d" } }, { zone: "Notes" });
        notices.stop();
        check("deaf to its own", heard.length, 1);
        // A script in a browser does not see the relay's pings, so it sends a ping frame of its own.
        const asking = new WebSocket(`${location.origin.replace(/^http/, "ws")}/push/1/iCloud.org.zonecast.checks/development`);
        const frames = [];
        asking.onopen = () => asking.send(JSON.stringify({ hello: { deviceID: "asks", ckWebAuthToken: user } }));
        asking.onmessage = (event) => {
          frames.push(Object.keys(JSON.parse(event.data))[0]);
          if (frames.at(-1) === "ready") asking.send(JSON.stringify({ ping: {} }));
          if (frames.at(-1) === "pong") asking.close(1000);
        };
        await next(asking, "close");
        check("a ping is answered", frames.filter((kind) => kind !== "notice"), ["ready", "pong"]);
        // After another user signs in, only that user's notices arrive.
        const other = `dev-check-${randomName()}`;
        const others = new Container({ container: "iCloud.org.zonecast.checks", webAuthToken: other, deviceID: "others" }).privateDatabase;
        await others.saveZones(["Theirs"]);
        await others.subscribe();
        const page = new Container({ container: "iCloud.org.zonecast.checks", webAuthToken: user, deviceID: "page" });
        const switching = new Notices(page, () => ({ private: syncToken }));
        const zones = [];
        switching.addEventListener("notice", ({ detail }) => zones.push([page.webAuthToken === other, detail.ck.met?.zid ?? null]));
        switching.start();
        await next(switching, "notice");
        const switched = next(switching, "ready");
        page.setWebAuthToken(other);
        await mine.save({ recordType: "Note", recordName: "of-the-former", fields: { title: "x" } }, { zone: "Notes" });
        await switched;
        const theirs = new Promise((resolve) => switching.addEventListener("notice", ({ detail }) => detail.ck.met?.zid === "Theirs" && resolve()));
        await mine.delete("of-the-former", { zone: "Notes" });
        await others.save({ recordType: "Note", fields: { title: "y" } }, { zone: "Theirs" });
        await theirs;
        switching.stop();
        check("the former user's notices", zones.filter(([isOther, zone]) => isOther && zone === "Notes"), []);
        // A client that reconnects receives a notice about what it missed.
        const again = new Notices(one, () => ({ private: syncToken }));
        again.start();
        check("caught up", (await next(again, "notice")).ck.met.zid, "Notes");
        again.stop();
        const feed = await mine.zoneChanges("Notes");
        check("changes", feed.records.map((record) => values(record).title), ["d"]);
        await mine.delete("n", { zone: "Notes" });
        const later = await mine.zoneChanges("Notes", feed.syncToken);
        check("tombstone", later.records.map((record) => [record.recordName, record.deleted]), [["n", true]]);
        check("gone", (await refusal(mine.fetch("n", { zone: "Notes" }))).serverErrorCode, "NOT_FOUND");
        await mine.saveAll(["p", "q", "r"].map((title) => ({ recordType: "Note", fields: { title } })), { zone: "Notes" });
        const sorted = { recordType: "Note", sortBy: [{ fieldName: "title", ascending: false }] };
        const found = await mine.query(sorted, { zone: "Notes", resultsLimit: 2 });
        const rest = await found.next();
        check("pages", [...found.records, ...rest.records].map((record) => values(record).title), ["r", "q", "p"]);
        check("last page", rest.next, undefined);
        const { recordName: file, field: content } = await mine.uploadAsset({ recordType: "File" }, "content",
          new TextEncoder().encode("bytes of a file"), { zone: "Notes" });
        const kept = await mine.save({ recordType: "File", recordName: file, fields: { content } }, { zone: "Notes" });
        const { downloadURL } = values(await mine.fetch(kept.recordName, { zone: "Notes" })).content;
        check("asset", await (await fetch(downloadURL)).text(), "bytes of a file");
        // A field of doubles accepts whole numbers.
        const priced = await mine.save({ recordType: "Price", recordName: "price", fields: { euros: 1.5, all: [0.5] } }, { zone: "Notes" });
        const whole = await mine.save({ ...priced, fields: { euros: 2, all: [1, 2] } }, { zone: "Notes" });
        check("fractions", [whole.fields.euros, whole.fields.all.type], [{ value: 2, type: "DOUBLE" }, "DOUBLE_LIST"]);
        // A write that arrived, although its answer was lost, does not conflict with its repetition.
        let isCut = false;
        const cut = new Container({
          container: "iCloud.org.zonecast.checks", webAuthToken: user, deviceID: "cut",
          fetch: async (address, options) => {
            const response = await fetch(address, options);
            if (!isCut) return response;
            isCut = false;
            throw new TypeError("the answer was lost");
          },
        }).privateDatabase;
        const shaky = await cut.save({ recordType: "Note", recordName: "shaky", fields: { title: "a" } }, { zone: "Notes" });
        isCut = true;
        const edit = () => cut.save({ ...shaky, fields: { title: "b" } }, { zone: "Notes" });
        check("lost", (await refusal(edit())).serverErrorCode, "NETWORK_ERROR");
        check("repeated", values(await edit()).title, "b");
        // A demo client keeps an edit that another client made to its note between two attempts.
        const place = { container: "iCloud.org.zonecast.checks", environment: "development", isDev: true, boardType: "Post" };
        const owner = `check-${randomName().slice(0, 12)}`;
        const client = new Client(place, owner, "phone", () => {});
        const until = async (what, holds) => {
          for (let turn = 0; !holds(); turn += 1) {
            if (turn > 2400) throw new Error(`waited 120 s for ${what}`);
            await new Promise((resolve) => setTimeout(resolve, 50));
          }
        };
        await client.open();
        await until("its zone", () => client.isSetUp);
        client.add("a", { name: "m" });
        await until("the note", () => client.pending === 0);
        const elsewhere = new Container({ container: place.container, webAuthToken: `dev-${owner}`, deviceID: "other" }).privateDatabase;
        const send = client.container.fetch;
        client.container.fetch = async (address, options) => {
          const response = await send(address, options);
          if (!address.includes("records/modify")) return response;
          client.container.fetch = send;
          await elsewhere.save({ ...await elsewhere.fetch("m", { zone: "Notes" }), fields: { done: true } }, { zone: "Notes" });
          throw new TypeError("the answer was lost");
        };
        client.change("m", { title: "b" });
        await until("the repeat", () => client.pending === 0);
        check("both edits", client.notes().map(({ title, done }) => [title, done]), [["b", true]]);
        await client.close();
        const anonymous = new Container({ container: "iCloud.org.zonecast.checks" });
        check("who is asked for", (await refusal(anonymous.privateDatabase.zones())).serverErrorCode, "AUTHENTICATION_REQUIRED");
        check("where to sign in", new URL(await anonymous.signInAddress()).pathname, "/signin");
        check("nothing to sign in to", await one.signInAddress(), undefined);
        """#
}
