import Foundation
import TestSupport
import Testing

/// `/zonecast.js` in Node and in a browser: exact values, and the connection for notices.
@Suite(.ownThread, .serialized, .timeLimit(.minutes(15))) struct ClientModuleTests {
    private let folder = ScratchFolder()

    /// Runs a script in Node, with the relay's module as `module` and its address as `url`.
    ///
    /// Returns the failed checks that the script collects in `faults`.
    private func faults(of script: String) throws -> String {
        let relay = try RelayProcess(folder: folder.path + "/relay")
        let module = try relay.connect().send("GET", "/zonecast.js").body
        try module.write(to: URL(fileURLWithPath: folder.path + "/zonecast.js"))
        try Data(#"{"type":"module"}"#.utf8).write(to: URL(fileURLWithPath: folder.path + "/package.json"))
        let text = """
            import * as module from "./zonecast.js";
            const url = "http://127.0.0.1:\(relay.port)";
            \(script)
            console.log(faults.join("\\n"));
            process.exit(0);
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: folder.path + "/run.js"))
        let run = try Tool.run("node", ["run.js"], in: folder.path)
        #expect(run.status == 0, "\(run.output)")
        #expect(relay.stop().status == 0)
        return run.output.trimmingCharacters(in: .whitespacesAndNewlines)
    }

    @Test("a record that is read and saved keeps every value as it was", .enabled(if: Tool.isInstalled("node")))
    func valuesSurvive() throws {
        #expect(try faults(of: Self.exactValues) == "")
    }

    @Test(
        "a record that is read and saved in a browser keeps every value as it was",
        .enabled(if: Chromium.program != nil, "chromium is not installed: sudo apt install chromium")
    )
    func valuesSurviveInABrowser() throws {
        let relay = try RelayProcess(folder: folder.path)
        let page = try Chromium().open("http://127.0.0.1:\(relay.port)/demo/?user=x&device=y")
        try page.wait(for: "document.readyState === 'complete'")
        let script = """
            (async () => { const module = await import("/zonecast.js"), url = location.origin;
            \(Self.exactValues)
            return faults.join("\\n"); })()
            """
        #expect(try page.text(script) == "")
    }

    @Test("notices detect a dead connection, an ended token and another user", .enabled(if: Tool.isInstalled("node")))
    func connectionStates() throws {
        #expect(try faults(of: Self.notices) == "")
    }

    /// The Swift client reads the same table: see `NoticeConnectionStateTableTests`.
    @Test("the browser's client reacts as the table specifies", .enabled(if: Tool.isInstalled("node")))
    func reactions() throws {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let table = tests.deletingLastPathComponent().appendingPathComponent("NoticeLineTable.json")
        try FileManager.default.createDirectory(atPath: folder.path, withIntermediateDirectories: true)
        try Data(contentsOf: table).write(to: URL(fileURLWithPath: folder.path + "/table.json"))
        #expect(try faults(of: Self.table) == "")
    }

    private static let table = #"""
        import { readFileSync } from "node:fs";
        const faults = [];
        const seconds = (milliseconds) => (milliseconds === undefined ? "" : ` ${milliseconds / 1000}`);
        function words([effect, value]) {
          switch (effect) {
            case "live": return value ? "live" : "lost";
            case "needsCredentials": return value ? `${effect} renewable` : effect;
            default: return effect + seconds(value);
          }
        }
        for (const { name, chance, steps } of JSON.parse(readFileSync("table.json", "utf8"))) {
          const line = new module.NoticeConnectionState();
          for (const { at, event, value, effects } of steps) {
            const is = line.handle(event, value, at * 1000, chance).map(words);
            if (is.join() !== effects.join()) faults.push(`${name}: ${event} at ${at} s led to ${is.join()} and not ${effects.join()}`);
          }
        }
        """#

    private static let exactValues = #"""
        const { Container, RelayError, field, filter, readJSON, values, writeJSON } = module;
        const faults = [];
        const check = (what, is, wanted) => { if (is !== wanted) faults.push(`${what}: ${is} and not ${wanted}`); };
        const name = "iCloud.org.zonecast.exact", user = `dev-${Math.random().toString(36).slice(2)}`;
        const sent = [];
        const container = new Container({ url, container: name, webAuthToken: user, fetch: (address, options) => { sent.push(options.body); return fetch(address, options); } });
        const database = container.privateDatabase;
        const wire = async (operation, body) => (await fetch(`${url}/database/1/${name}/development/private/${operation}?ckWebAuthToken=${user}`, { method: "POST", body })).text();
        const zone = "Exact";
        await database.saveZones([zone]);

        // A record written by another program, with values that are easily changed by reading and saving.
        const record = `"title":{"value":"a","type":"STRING"},"largest":{"value":9223372036854775807,"type":"INT64"},"smallest":{"value":-9223372036854775808,"type":"INT64"},
        "odd":{"value":9007199254740993,"type":"INT64"},"even":{"value":9007199254740992,"type":"INT64"},"safe":{"value":-9007199254740991,"type":"INT64"},
        "ids":{"value":[9223372036854775806,1,-9007199254740995,0],"type":"INT64_LIST"},"noIDs":{"value":[],"type":"INT64_LIST"},
        "empty":{"value":"","type":"STRING"},"lines":{"value":"a\\r\\nb\\rc\\n","type":"STRING"},"digits":{"value":"9223372036854775807 \\" 12345678901234567890","type":"STRING"},
        "items":{"value":["","a\\r\\nb","","9007199254740993",""],"type":"STRING_LIST"},
        "whole":{"value":2.0,"type":"DOUBLE"},"minus":{"value":-0.0,"type":"DOUBLE"},"huge":{"value":1e+21,"type":"DOUBLE"},"large":{"value":9007199254740994.0,"type":"DOUBLE"},
        "tiny":{"value":5e-324,"type":"DOUBLE"},"long":{"value":0.30000000000000004,"type":"DOUBLE"},"doubles":{"value":[1.0,-0.0,1e+300],"type":"DOUBLE_LIST"},
        "at":{"value":1795216898607,"type":"TIMESTAMP","exactSeconds":816909698.6071234},"before":{"value":-62135596800000,"type":"TIMESTAMP"},
        "far":{"value":9223372036854775807,"type":"TIMESTAMP"},"moments":{"value":[0,-1,1795216898607],"type":"TIMESTAMP_LIST","exactSeconds":[null,null,816909698.6068766]},
        "secret":{"value":"words","type":"STRING","isEncrypted":true},"secretNumber":{"value":9223372036854775807,"type":"INT64","isEncrypted":true},
        "data":{"value":"AP8AAQ==","type":"BYTES"},"place":{"value":{"latitude":48.2,"longitude":-0.0,"altitude":1e-7,"timestamp":9007199254740993},"type":"LOCATION"},
        "link":{"value":{"recordName":"9007199254740993","action":"NONE"},"type":"REFERENCE"}`.replaceAll("\n", "");
        const stored = async (recordName) => {
          const text = await wire("records/lookup", `{"zoneID":{"zoneName":"${zone}"},"records":[{"recordName":"${recordName}"}]}`);
          return /"fields":(\{.*\}),"pluginFields"/.exec(text)?.[1] ?? text;
        };
        const ways = {
          "a field by its value": (read) => ({ ...read, fields: { title: "b" } }),
          "fields as on the wire": (read) => ({ ...read, fields: { ...read.fields, title: "b" } }),
          "in place": (read) => { read.fields.title.value = "b"; return read; },
          "fields as plain values": (read) => ({ ...read, fields: { ...values(read), title: "b" } }),
          "plain values in a record of one's own": ({ recordName, recordType, recordChangeTag, ...read }) =>
            ({ recordName, recordType, recordChangeTag, fields: { ...values(read), title: "b" } }),
          "by way of a text": (read) => { const copy = readJSON(writeJSON(read)); copy.fields.title = "b"; return copy; },
        };
        let number = 0;
        for (const [what, change] of Object.entries(ways)) {
          const recordName = `r${number += 1}`;
          const made = await wire("records/modify", `{"zoneID":{"zoneName":"${zone}"},"operations":[{"operationType":"create","record":{"recordName":"${recordName}","recordType":"Exact","fields":{${record}}}}]}`);
          if (made.includes("serverErrorCode")) faults.push(`${what}: ${made}`);
          const before = await stored(recordName);
          const reads = { fetch: () => database.fetch(recordName, { zone }), feed: async () => (await database.zoneChanges(zone)).records.find((one) => one.recordName === recordName),
            "numbers as texts": () => database.fetch(recordName, { zone, numbersAsStrings: true }) };
          for (const [how, read] of Object.entries(reads)) {
            const saved = await database.save(change(await read()), { zone });
            check(`${what}, by ${how}`, await stored(recordName), before.replace('"title":{"value":"a"', '"title":{"value":"b"'));
            // The response is read exactly too.
            check(`${what}, by ${how}, answered`, writeJSON(saved.fields.largest), '{"value":9223372036854775807,"type":"INT64"}');
          }
        }
        const read = await database.fetch("r1", { zone });
        check("what a number holds is one", [read.fields.safe, read.fields.largest, read.fields.odd, read.fields.large, read.fields.huge].map(({ value }) => typeof value).join(),
          "number,bigint,bigint,number,number");
        check("a list of both", read.fields.ids.value.map((value) => typeof value).join(), "bigint,number,bigint,number");
        check("plain", [values(read).at.getTime(), values(read).far, values(read).items.length].join(), "1795216898607,9223372036854775807,5");
        // A changed date is saved as it was changed, even by less than a second.
        const moved = values(read);
        moved.at.setTime(1795216898608);
        const later = await database.save({ ...read, fields: moved }, { zone });
        check("a changed date", writeJSON(later.fields.at), '{"value":1795216898608,"type":"TIMESTAMP"}');
        check("the dates beside it", writeJSON(later.fields.moments.exactSeconds), "[null,null,816909698.6068766]");

        // Numbers that the program sets.
        const own = await database.save({ recordType: "Own", fields: {
          large: 9223372036854775807n, small: -9223372036854775808n, list: [1, 9007199254740993n], power: 2 ** 60, lowest: -(2 ** 63), ratio: 1.5,
          link: { recordName: "x" }, tags: ["a"] } }, { zone });
        check("as they were given", ["large", "small", "list", "power", "lowest"].map((one) => writeJSON(own.fields[one])).join(), [
          '{"value":9223372036854775807,"type":"INT64"}', '{"value":-9223372036854775808,"type":"INT64"}', '{"value":[1,9007199254740993],"type":"INT64_LIST"}',
          '{"value":1152921504606846976,"type":"INT64"}', '{"value":-9223372036854775808,"type":"INT64"}'].join());
        const whole = await database.save({ ...own, fields: { ratio: 5n } }, { zone });
        check("a whole number for a field of fractions", writeJSON(whole.fields.ratio), '{"value":5,"type":"DOUBLE"}');
        const emptied = await database.save({ ...whole, fields: { ...values(whole), tags: [], list: [] } }, { zone });
        check("emptied lists", writeJSON([emptied.fields.tags, emptied.fields.list]), '[{"value":[],"type":"STRING_LIST"},{"value":[],"type":"INT64_LIST"}]');
        check("sent with their types", /"tags":\{"value":\[\],"type":"STRING_LIST"\}/.test(sent.at(-1)), true);
        const found = async (...filterBy) => (await database.query({ recordType: "Exact", filterBy }, { zone })).records.length;
        check("by an exact number", [await found(filter("odd", "EQUALS", 9007199254740993n)), await found(filter("odd", "EQUALS", 9007199254740992n)),
          await found(filter("odd", "IN", [1, 9007199254740993n])), await found(filter("largest", "LESS_THAN", 9223372036854775807n))].join(), "6,0,6,0");

        const wasStored = await stored("r2");
        // A value that no field can hold is refused before anything is sent, with the name of its field.
        const impossible = {
          nan: NaN, infinity: Infinity, minusInfinity: -Infinity, date: new Date(NaN), list: [1, NaN], dates: [new Date(0), new Date("x")], large: 2n ** 63n,
          small: -(2n ** 63n) - 1n, larges: [1n, 2n ** 64n], wire: { value: NaN, type: "DOUBLE" }, wireList: { value: [0, -Infinity], type: "DOUBLE_LIST" },
          wireDate: { value: new Date(NaN), type: "TIMESTAMP" }, place: { latitude: NaN, longitude: 0 }, call: () => 1, symbol: Symbol("x"),
        };
        for (const [name, value] of Object.entries(impossible)) {
          const count = sent.length;
          const calls = {
            save: () => database.save({ ...read, fields: { ...read.fields, [name]: value } }, { zone }),
            saveAll: () => database.saveAll([{ recordType: "Own", fields: {} }, { recordType: "Own", fields: { [name]: value } }], { zone }),
            modify: () => database.modify([{ operationType: "forceUpdate", record: { recordName: "r1", recordType: "Exact", fields: { [name]: value } } }], { zone }),
          };
          for (const [how, call] of Object.entries(calls)) {
            const error = await call().then(() => undefined, (error) => error);
            check(`${how} of ${name}`, [error instanceof RelayError, error?.serverErrorCode, error?.message.includes(`"${name}"`), error?.leavesOutcomeOpen].join(), "true,BAD_REQUEST,true,false");
          }
          check(`${name} is not sent`, sent.length, count);
        }
        for (const value of [NaN, -Infinity, new Date(NaN), [NaN], 2n ** 63n]) {
          let message = "";
          try { filter("price", "EQUALS", value); } catch (error) { message = error.message; }
          check(`a filter by ${value}`, message.includes('"price"'), true);
        }
        const query = await database.query({ recordType: "Exact", filterBy: [{ fieldName: "odd", comparator: "EQUALS", fieldValue: { value: NaN } }] }, { zone }).catch((error) => error);
        check("a query of NaN", query.serverErrorCode, "BAD_REQUEST");
        check("as it was", await stored("r2"), wasStored);

        // Types of a later relay.
        const future = `{"records":[{"recordName":"f","recordType":"F","recordChangeTag":"1","fields":{"turn":{"value":{"w":9007199254740993,"x":0.5},"type":"QUATERNION"},
        "lasts":{"value":"P3D","type":"DURATION"},"all":{"value":[[1,2],[3]],"type":"MATRIX_LIST"},"title":{"value":"a","type":"STRING"}}}]}`;
        const bodies = [];
        const coming = new Container({ url, container: name, fetch: async (address, { body }) => { bodies.push(body); return new Response(future); } }).privateDatabase;
        const unknown = await coming.fetch("f");
        for (const fields of [{ ...unknown.fields }, values(unknown)]) {
          await coming.save({ ...unknown, fields: { ...fields, title: "b" } });
          check("unknown types", bodies.at(-1).includes(/"turn".*"MATRIX_LIST"\}/s.exec(future)[0].replaceAll("\n", "")), true);
        }

        // JSON itself.
        for (const text of ['{"a":[1,-0,1e+21,9007199254740993,-9223372036854775808,""],"__proto__":{"b":12345678901234567890}}', '"9007199254740993\\\\"', "9223372036854775808",
          '{"\\"9007199254740993\\"":9007199254740993}']) check("there and back", writeJSON(readJSON(text)), text);
        for (const text of ["{12345678901234567890:1}", "01234567890123456789", "[12345678901234567890,]", '"12345678901234567', "1234567890123456."]) {
          let error;
          try { readJSON(text); } catch (caught) { error = caught; }
          check(`no JSON: ${text}`, error instanceof SyntaxError, true);
        }
        const odd = { a: undefined, f() {}, d: new Date(0), n: new Number(3), e: [], o: {}, l: [undefined, () => 1], x: { y: [{ z: "\u2028" }] } };
        for (const indent of [0, 2]) check("as the browser's own", writeJSON(odd, indent), JSON.stringify(odd, null, indent));
        BigInt.prototype.toJSON = function () { return this.toString(); };
        check("a page's own BigInt.prototype.toJSON", writeJSON([9007199254740993n]), "[9007199254740993]");
        delete BigInt.prototype.toJSON;
        """#

    private static let notices = #"""
        const { Container, Notices, RelayError } = module;
        const faults = [];
        const check = (what, is, wanted) => { if (JSON.stringify(is) !== JSON.stringify(wanted)) faults.push(`${what}: ${JSON.stringify(is)} and not ${JSON.stringify(wanted)}`); };
        // A clock and timers that the test controls.
        let now = 0, timers = [];
        const realTimeout = globalThis.setTimeout;
        globalThis.setTimeout = (act, delay) => { const timer = { act, at: now + (delay ?? 0) }; timers.push(timer); return timer; };
        globalThis.clearTimeout = (timer) => { timers = timers.filter((one) => one !== timer); };
        Date.now = () => now;
        Math.random = () => 0.5;
        const settle = async () => { for (let turn = 0; turn < 20; turn += 1) await new Promise((resolve) => setImmediate(resolve)); };
        async function pass(seconds) {
          const end = now + seconds * 1000;
          for (;;) {
            await settle();
            const next = timers.filter(({ at }) => at <= end).sort((one, other) => one.at - other.at)[0];
            if (!next) break;
            timers = timers.filter((one) => one !== next);
            now = Math.max(now, next.at);
            next.act();
          }
          now = end;
          await settle();
        }
        // A fake window, document and sockets.
        const listeners = {};
        globalThis.addEventListener = (type, act) => (listeners[type] ??= new Set()).add(act);
        globalThis.removeEventListener = (type, act) => listeners[type]?.delete(act);
        globalThis.document = { visibilityState: "visible", addEventListener: globalThis.addEventListener, removeEventListener: globalThis.removeEventListener };
        const happens = (type) => [...listeners[type] ?? []].forEach((act) => act({ type }));
        const sockets = [];
        globalThis.WebSocket = class {
          constructor() { this.readyState = 0; this.sent = []; sockets.push(this); }
          send(text) { this.sent.push(JSON.parse(text)); }
          // On a half-open connection, the peer's close does not arrive.
          close() { this.readyState = 2; }
          opens() { this.readyState = 1; this.onopen?.({}); }
          says(frame) { this.onmessage?.({ data: JSON.stringify(frame) }); }
          ends(code, reason = "") { this.readyState = 3; this.onclose?.({ code, reason }); }
        };
        const last = () => sockets.at(-1);
        const calls = [];
        let answerCall = () => new Response("{}");
        function listening(webAuthToken = "alice-1") {
          const container = new Container({ url: "http://relay.invalid", container: "iCloud.x", webAuthToken, retries: 0, fetch: async (address) => { calls.push(address); return answerCall(); } });
          const notices = new Notices(container, () => ({}));
          const heard = [];
          for (const type of ["ready", "notice", "down"]) notices.addEventListener(type, ({ detail }) => heard.push([type, detail]));
          notices.start();
          const up = () => { last().opens(); last().says({ ready: { userRecordName: "_u", subscriptions: [] } }); };
          return { container, notices, heard, up };
        }
        const downs = (heard) => heard.filter(([type]) => type === "down").map(([, detail]) => detail);

        // A half-open connection.
        {
          const { notices, heard, up } = listening();
          up();
          await pass(44);
          check("quiet for 44 s", [last().sent.length, notices.isLive], [1, true]);
          await pass(2);
          check("asks whether the relay is there", last().sent.at(-1), { ping: {} });
          last().says({ pong: {} });
          await pass(44);
          check("an answer is enough", [sockets.length, notices.isLive], [1, true]);
          await pass(17);
          check("no answer", [notices.isLive, sockets.length, downs(heard).length, downs(heard)[0]?.code], [false, 2, 1, 1006]);
          const dead = sockets[0];
          dead.says({ notice: { late: true } });
          dead.ends(1006);
          check("the dead socket's last words", heard.filter(([type]) => type === "notice").length, 0);
          up();
          check("back", notices.isLive, true);
          notices.stop();
        }
        // Probes.
        for (const type of ["online", "visibilitychange", "pageshow"]) {
          const { notices, up } = listening();
          up();
          const socket = last();
          await pass(5);
          document.visibilityState = type === "visibilitychange" ? "hidden" : "visible";
          if (type === "visibilitychange") happens(type);
          check(`a page that is hidden asks nothing`, socket.sent.length, 1);
          document.visibilityState = "visible";
          happens(type);
          check(`${type} asks at once`, socket.sent.at(-1), { ping: {} });
          await pass(16);
          check(`${type} finds a dead connection`, last() !== socket, true);
          up();
          last().readyState = 3;
          const count = sockets.length;
          happens(type);
          check(`${type} finds a closed connection`, sockets.length, count + 1);
          last().ends(1006);
          happens(type);
          check(`${type} ends a pause`, sockets.length, count + 2);
          notices.stop();
          happens(type);
          check(`${type} after the end`, sockets.length, count + 2);
        }
        // Tokens.
        const refuse = (status, body) => () => new Response(JSON.stringify(body), { status });
        const where = "http://relay.invalid/signin?x";
        const unsigned = { serverErrorCode: "AUTHENTICATION_REQUIRED", reason: "request needs authorization", redirectURL: where };
        for (const [what, code, comesUp] of [["ended during a connection", 4450, true], ["ended before its hello", 4450, false], ["revoked", 4401, true], ["unknown", 4401, false]]) {
          answerCall = refuse(421, unsigned);
          const { notices, heard, up } = listening();
          if (comesUp) up(); else last().opens();
          const before = sockets.length;
          last().ends(code, "no");
          for (let turn = 0; turn < 200 && !downs(heard).some(({ isFinal }) => isFinal); turn += 1) {
            await pass(10);
            // A connection attempt with the same token gets the same close code.
            if (last().readyState === 0) { last().opens(); last().ends(code, "no"); }
          }
          const final = downs(heard).at(-1);
          check(`a token that was ${what}`, [final.isFinal, final.error instanceof RelayError && final.error.serverErrorCode, final.redirectURL], [true, "AUTHENTICATION_REQUIRED", where]);
          check(`${what}: tries`, sockets.length - before <= 1, true);
          const count = sockets.length;
          await pass(3600);
          check(`${what}: no more tries`, sockets.length, count);
          // A new sign-in connects again.
          answerCall = () => new Response("{}");
          const { container } = notices;
          container.setWebAuthToken("alice-2");
          check(`${what}: signed in again`, sockets.length, count + 1);
          up();
          check(`${what}: live again`, [notices.isLive, last().sent[0].hello.ckWebAuthToken], [true, "alice-2"]);
          notices.stop();
        }
        {
          // Without a network, a token is not taken for ended.
          answerCall = () => { throw new TypeError("no network"); };
          const { notices, heard, up } = listening();
          last().opens();
          last().ends(4450, "expired");
          await pass(120);
          check("no network is not the end", downs(heard).some(({ isFinal }) => isFinal), false);
          answerCall = () => new Response("{}", { headers: { "X-Apple-CloudKit-Web-Auth-Token": "alice-2" } });
          for (let turn = 0; turn < 200 && last().readyState !== 0; turn += 1) await pass(1);
          up();
          check("a fresh token", [notices.isLive, last().sent[0].hello.ckWebAuthToken], [true, "alice-2"]);
          notices.stop();
        }
        {
          // Another window of the device took over; a token renewed before does not change that.
          const { notices, heard, up, container } = listening();
          up();
          last().says({ renewed: { ckWebAuthToken: "alice-9" } });
          check("renewed", container.webAuthToken, "alice-9");
          const count = sockets.length;
          last().ends(4409, "replaced");
          await pass(600);
          check("replaced", [sockets.length, downs(heard).at(-1).isFinal], [count, true]);
          notices.stop();
          notices.start();
          check("started again", sockets.length, count + 1);
          notices.stop();
        }
        // Another user.
        for (const moment of ["live", "greeting", "connecting", "resting"]) {
          answerCall = () => new Response("{}");
          const { container, notices, heard, up } = listening();
          const former = last();
          if (moment !== "connecting") former.opens();
          if (moment === "live") up();
          if (moment === "resting") former.ends(1006);
          container.setWebAuthToken("bob-1");
          former.says({ ready: { userRecordName: "_alice", subscriptions: [] } });
          former.says({ notice: { ck: { ckuserid: "_alice" } } });
          former.says({ renewed: { ckWebAuthToken: "alice-2" } });
          former.ends(4401, "signed out");
          await pass(1);
          check(`${moment}: the former user's socket`, [former.readyState > 1, heard.filter(([type, one]) => type === "notice" || one.userRecordName === "_alice").length, container.webAuthToken], [true, 0, "bob-1"]);
          up();
          last().says({ notice: { ck: { ckuserid: "_bob" } } });
          check(`${moment}: the new user's notices`, [last().sent[0].hello.ckWebAuthToken, heard.at(-1)], ["bob-1", ["notice", { ck: { ckuserid: "_bob" } }]]);
          const bobs = last();
          container.setWebAuthToken(undefined);
          bobs.says({ notice: { ck: { ckuserid: "_bob" } } });
          const count = sockets.length;
          await pass(600);
          check(`${moment}: signed out`, [heard.filter(([type]) => type === "notice").length, sockets.length, downs(heard).at(-1).isFinal], [1, count, true]);
          container.setWebAuthToken("carol-1");
          up();
          check(`${moment}: carol`, [last().sent[0].hello.ckWebAuthToken, notices.isLive], ["carol-1", true]);
          notices.stop();
          container.setWebAuthToken("dora-1");
          check(`${moment}: stopped`, sockets.length, count + 1);
        }
        """#
}
