import HTTPTypes
import Records
import RelayAPI
import RelayCore
import Synchronization
import Wire
import ZoneTesting

extension Checker {
    /// The texts of a record's fields: strings, and assets as `asset CHECKSUM`.
    static func texts(ofFields fields: JSONValue) throws(JSONError) -> [String: String] {
        var texts: [String: String] = [:]
        for (name, member) in try fields.members() {
            guard let value = member["value"] else { continue }
            if value.isString {
                texts[name] = try value.string()
            } else if value.isObject, let checksum = try value["fileChecksum"]?.string() {
                texts[name] = "asset \(checksum)"
            }
        }
        return texts
    }

    /// The texts that a request wants to write, with the records to write them to.
    func attempts(in body: JSONValue, of request: APIRequest) -> [(text: String, home: RecordLocation)] {
        guard request.path.hasSuffix("/records/modify"), let operations = try? body["operations"]?.elements()
        else { return [] }
        let zone = zone(body["zoneID"], of: request)
        return operations.flatMap { operation -> [(String, RecordLocation)] in
            guard let record = operation["record"], let fields = record["fields"],
                let name = try? record["recordName"]?.string(), let texts = try? Self.texts(ofFields: fields)
            else { return [] }
            return texts.values.map { ($0, RecordLocation(zone: zone, record: name)) }
        }
    }

    /// The zone that a request or response names.
    func zone(_ json: JSONValue?, of request: APIRequest) -> ZoneName {
        if request.path.contains("/public/") {
            return ZoneName(owner: RelayCore.Zone.publicOwner.recordName, name: ZoneID.defaultName)
        }
        guard let json, let name = try? json["zoneName"]?.string() else {
            return ZoneName(owner: names(request.user), name: ZoneID.defaultName)
        }
        let owner = try? json["ownerRecordName"]?.string()
        let isCaller = owner == nil || owner == UserID.caller.recordName || owner == "__defaultOwner__"
        return ZoneName(owner: isCaller ? names(request.user) : owner ?? "", name: name)
    }

    // MARK: Reads

    /// Checks that a response contains only marked texts of records that the user may see.
    func checkTexts(of bytes: [UInt8], to user: String, in exchange: Exchange) {
        for text in Self.marked(in: bytes) {
            let (homes, truths) = state.withLock { ($0.attempted[text] ?? [], $0.history[exchange.open.since...]) }
            guard !homes.isEmpty else { continue }
            let isTheirs = homes.contains { home in
                home.zone.owner == user || home.zone.isPublic
                    || truths.contains { $0.shows(home.record, ofOwner: home.zone.owner, to: user) }
                    // The response to a rejected write repeats the caller's own values.
                    || exchange.operation.hasSuffix("records/modify")
            }
            if !isTheirs { reportViolation("f", "\(exchange.device) was shown \(text) by \(exchange.operation)") }
        }
    }

    /// The texts delimited by `~`, including the delimiters.
    static func marked(in bytes: [UInt8]) -> Set<String> {
        let mark = UInt8(ascii: "~")
        guard bytes.contains(mark) else { return [] }
        let parts = bytes.split(separator: mark, omittingEmptySubsequences: false)
        return Set(
            stride(from: 1, to: parts.count - 1, by: 2).map { "~" + String(decoding: parts[$0], as: UTF8.self) + "~" }
        )
    }

    /// Checks that the user may see each record of a response, and that each is a committed version.
    func checkRecords(_ said: JSONValue, _ exchange: Exchange) throws(JSONError) {
        let asked = try? JSONDocument(parsing: exchange.request.body).root
        for record in try said["records"]?.elements() ?? [] {
            let zone = zone(record["zoneID"] ?? asked?["zoneID"], of: exchange.request)
            // One commit may contain both a write and its author's removal; the author may see the record just written.
            try checkRecord(record, in: zone, exchange, isOwnWrite: exchange.operation.hasSuffix("records/modify"))
            if let server = record["serverRecord"] { try checkRecord(server, in: zone, exchange) }
        }
        for page in try said["zones"]?.elements() ?? [] {
            let zone = zone(page["zoneID"], of: exchange.request)
            for record in try page["records"]?.elements() ?? [] { try checkRecord(record, in: zone, exchange) }
        }
    }

    private func checkRecord(
        _ record: JSONValue,
        in zone: ZoneName,
        _ exchange: Exchange,
        isOwnWrite: Bool = false
    ) throws(JSONError) {
        guard record["serverErrorCode"] == nil, try record["deleted"]?.bool() != true, let json = record["fields"],
            let name = try record["recordName"]?.string(), let tag = try record["recordChangeTag"]?.string(),
            try record["recordType"]?.string() != Share.recordType,
            try record["recordType"]?.string() != RecordType.usersName, let change = UInt64(tag, radix: 36)
        else { return }
        let user = names(exchange.request.user)
        let fields = try Self.texts(ofFields: json)
        let time = now
        state.withLock { state in
            if exchange.open.removed.contains(Removal(user: user, zone: zone)) {
                state.reportViolation(
                    "j",
                    "\(exchange.device) was shown \(name) in \(zone) after its removal from the share",
                    time
                )
            }
            let truths = state.history[exchange.open.since...]
            let isTheirs = isOwnWrite || truths.contains { $0.visible(zone, to: user)?[name] != nil }
            if !isTheirs { state.reportViolation("f", "\(exchange.device) was shown \(name) in \(zone)", time) }
            guard let version = state.versions[zone]?[name]?[change] else {
                if state.snapshot.zones[zone] != nil {
                    state.reportViolation(
                        "i",
                        "\(exchange.device) was shown \(name) in \(zone) as \(tag), which was never committed",
                        time
                    )
                }
                return
            }
            for (field, text) in fields where version.fields[field] != text {
                state.reportViolation(
                    "i",
                    "\(exchange.device) was shown \(text) in \(field) of \(name), which is \(version)",
                    time
                )
            }
        }
    }

    // MARK: Zones

    /// Checks that zones reported as created or deleted really are.
    ///
    /// Repeated requests are skipped: they get the first response, whatever other requests have changed since.
    func checkZones(_ asked: JSONValue, _ said: JSONValue, _ exchange: Exchange) throws(JSONError) {
        guard exchange.answer.status.code == 200, let operations = try asked["operations"]?.elements(),
            let answers = try said["zones"]?.elements(), answers.count == operations.count
        else { return }
        var took: [Bool] = []
        for (operation, answer) in zip(operations, answers) {
            took.append(answer["serverErrorCode"] == nil)
            guard took.last == true, !exchange.open.isRepeat, !exchange.open.isDoubled else { continue }
            let name = zone(answer["zoneID"] ?? operation["zone"]?["zoneID"], of: exchange.request)
            let kind = try operation["operationType"]?.string()
            // A zone continues to exist after a participant leaves it.
            guard kind != "leave" else { continue }
            let isDelete = kind == "delete"
            let time = now
            state.withLock { state in
                let truths = state.history[exchange.open.since...]
                let isSo = truths.contains { ($0.zones[name] == nil) == isDelete }
                if !isSo {
                    state.reportViolation(
                        "a",
                        "\(exchange.device) was told that \(name) is \(isDelete ? "deleted" : "created")",
                        time
                    )
                }
            }
        }
        if let name = exchange.open.write { state.withLock { $0.done[name] = $0.done[name] ?? took } }
    }

    // MARK: Feeds

    /// Checks that a page continues the reader's state, and that the last page leads to a state that the zone was in.
    func checkFeed(_ asked: JSONValue, _ said: JSONValue, _ exchange: Exchange) throws(JSONError) {
        guard exchange.answer.status.code == 200 else { return }
        let questions = try asked["zones"]?.elements() ?? []
        for (index, page) in try (said["zones"]?.elements() ?? []).enumerated() {
            let zone = zone(page["zoneID"], of: exchange.request)
            let since = index < questions.count ? try questions[index]["syncToken"]?.string() : nil
            if try page["serverErrorCode"]?.string() != nil {
                try checkRefusal(page, of: zone, since: since, exchange)
                continue
            }
            guard let token = try page["syncToken"]?.string() else { continue }
            if exchange.open.removed.contains(Removal(user: names(exchange.request.user), zone: zone)) {
                reportViolation("j", "\(exchange.device) was served \(zone) after its removal from the share")
            }
            try check(page, of: zone, since: since, token, exchange)
        }
    }

    private func check(
        _ page: JSONValue,
        of zone: ZoneName,
        since: String?,
        _ token: String,
        _ exchange: Exchange
    ) throws(JSONError) {
        let before: [String: UInt64]?
        if let since { before = state.withLock { $0.known[since]?.tags } } else { before = [:] }
        guard var tags = before else { return }
        var (seen, last): (Set<String>, UInt64) = ([], 0)
        for record in try page["records"]?.elements() ?? [] {
            let name = try record.required("recordName").string()
            if !seen.insert(name).inserted { reportViolation("c", "\(name) is twice in one page of \(zone)") }
            if try record["deleted"]?.bool() == true {
                tags[name] = nil
            } else if try record["recordType"]?.string() != Share.recordType {
                let tag = try record.required("recordChangeTag").string()
                let number = UInt64(tag, radix: 36) ?? 0
                if let old = tags[name], old > number {
                    reportViolation("c", "\(name) in \(zone) went back from \(old) to \(number)")
                }
                // In a hierarchy's feed, a record is listed at the change that added it to the hierarchy.
                if !exchange.isShared, number < last {
                    reportViolation("c", "\(name) follows a later change in \(zone)")
                }
                last = number
                tags[name] = number
            }
        }
        let end = ChangeToken(encoded: token)?.position ?? 0
        if !exchange.isShared, end < last {
            reportViolation("c", "a page of \(zone) ends at \(end), before its last row \(last)")
        }
        let moreComing = try page["moreComing"]?.bool() ?? false
        conclude(zone, tags, token, moreComing: moreComing, exchange)
    }

    private func conclude(
        _ zone: ZoneName,
        _ tags: [String: UInt64],
        _ token: String,
        moreComing: Bool,
        _ exchange: Exchange
    ) {
        let (user, time) = (names(exchange.request.user), now)
        state.withLock { state in
            let number = state.snapshot.zones[zone]?.number ?? 0
            state.known[token] = KnownToken(
                zone: zone,
                tags: tags,
                user: user,
                isShared: exchange.isShared,
                number: number,
                epoch: state.epoch
            )
            guard !moreComing else { return }
            let states = state.history[exchange.open.since...].compactMap { $0.visible(zone, to: user) }
            guard !states.contains(where: { $0.mapValues(\.change) == tags }), let last = states.last else { return }
            let expected = last.mapValues(\.change)
            let missing = Set(expected.keys).subtracting(tags.keys).sorted()
            let extra = Set(tags.keys).subtracting(expected.keys).sorted()
            let older = expected.filter { tags[$0.key] != nil && tags[$0.key] != $0.value }.keys.sorted()
            state.reportViolation(
                "b",
                "the feed of \(zone) leaves \(exchange.device) without \(missing), with \(extra) too many, and \(older) in other versions",
                time
            )
        }
    }

    /// Checks that the relay accepts its own tokens, unless the zone was recreated or all tokens were invalidated.
    private func checkRefusal(_ page: JSONValue, of zone: ZoneName, since: String?, _ exchange: Exchange)
        throws(JSONError)
    {
        let code = try page["serverErrorCode"]?.string() ?? ""
        let time = now
        state.withLock { state in
            guard let since, let known = state.known[since], known.user == names(exchange.request.user),
                known.isShared == exchange.isShared
            else { return }
            if !["BAD_REQUEST", "ZONE_NOT_FOUND", "TRY_AGAIN_LATER", "THROTTLED"].contains(code) {
                state.reportViolation("b", "a token of \(zone) was refused by \(code)", time)
            }
            guard !known.isShared, known.epoch == state.epoch, code == "BAD_REQUEST" || code == "ZONE_NOT_FOUND" else {
                return
            }
            let position = ChangeToken(encoded: since)?.position ?? 0
            guard position >= state.horizons[zone] ?? 0 else { return }
            let isSame = state.history[exchange.open.since...].allSatisfy { $0.zones[zone]?.number == known.number }
            if isSame { state.reportViolation("b", "a good token of \(zone) was refused by \(code)", time) }
        }
    }

    /// Checks the database feed, which lists zones, in the same way.
    func checkDatabaseFeed(_ asked: JSONValue, _ said: JSONValue, _ exchange: Exchange) throws(JSONError) {
        guard exchange.answer.status.code == 200, let token = try said["syncToken"]?.string() else { return }
        let since = try asked["syncToken"]?.string()
        let user = names(exchange.request.user)
        let before: Set<ZoneName>? = since.map { since in state.withLock { $0.knownDatabases[since]?.zones } } ?? []
        guard var zones = before else { return }
        for entry in try said["zones"]?.elements() ?? [] {
            let name = zone(entry["zoneID"], of: exchange.request)
            if try entry["deleted"]?.bool() == true { zones.remove(name) } else { zones.insert(name) }
        }
        let moreComing = try said["moreComing"]?.bool() ?? false
        let time = now
        state.withLock { state in
            state.knownDatabases[token] = KnownDatabase(
                zones: zones,
                user: user,
                isShared: exchange.isShared,
                epoch: state.epoch
            )
            guard !moreComing else { return }
            let states = state.history[exchange.open.since...].map { $0.zones(of: user, shared: exchange.isShared) }
            guard !states.contains(zones), let last = states.last else { return }
            state.reportViolation(
                "b",
                "the feed of the database leaves \(exchange.device) without \(last.subtracting(zones)), with \(zones.subtracting(last)) too many",
                time
            )
        }
    }
}

/// Writes: an acknowledged write is stored, one of several concurrent writes wins, a rejected write leaves no trace,
/// and a repeated write is applied once.
extension Checker {
    /// One operation with its result.
    private struct Written {
        var zone: ZoneName
        var name: String
        var kind: String
        var base: String?
        /// The change number of the saved record; `nil` if the operation was rejected or is a deletion.
        var number: UInt64?
        var code: String?
        var texts: [String]
        var place: Int
    }

    func checkWrite(_ asked: JSONValue, _ said: JSONValue, _ exchange: Exchange) throws(JSONError) {
        guard let operations = try asked["operations"]?.elements() else { return }
        let zone = zone(asked["zoneID"], of: exchange.request)
        let answers = try said["records"]?.elements() ?? []
        guard answers.count == operations.count else {
            // The relay rejected the whole request.
            if said["serverErrorCode"] != nil {
                for operation in operations { try refuse(operation, in: zone, exchange) }
            }
            return
        }
        var took: [Bool] = []
        for (place, operation) in operations.enumerated() {
            let answer = answers[place]
            let written = try Self.written(operation, answer, in: zone, place)
            note(
                "    \(written.kind) \(written.name) on \(written.base ?? "-"): \(written.code ?? written.number.map { String($0, radix: 36) } ?? "done")"
            )
            took.append(written.code == nil)
            if written.code != nil { try refuse(operation, in: zone, exchange) }
            let (type, askedType) = (answer["recordType"], operation["record"]?["recordType"])
            let isShare = try type?.string() == Share.recordType
            let asksForShare = try askedType?.string() == Share.recordType
            if !isShare, !asksForShare { check(written, exchange) }
        }
        if let name = exchange.open.write { state.withLock { $0.done[name] = $0.done[name] ?? took } }
    }

    private static func written(
        _ operation: JSONValue,
        _ answer: JSONValue,
        in zone: ZoneName,
        _ place: Int
    ) throws(JSONError) -> Written {
        let record = operation["record"]
        let tag = try answer["recordChangeTag"]?.string()
        let answered = try answer["recordName"]?.string()
        let asked = try record?["recordName"]?.string()
        var texts: [String] = []
        if let fields = record?["fields"] { texts = Array(try Self.texts(ofFields: fields).values) }
        return Written(
            zone: zone,
            name: answered ?? asked ?? "?",
            kind: try operation["operationType"]?.string() ?? "?",
            base: try record?["recordChangeTag"]?.string(),
            number: tag.flatMap { UInt64($0, radix: 36) },
            code: try answer["serverErrorCode"]?.string(),
            texts: texts,
            place: place
        )
    }

    private func check(_ written: Written, _ exchange: Exchange) {
        let time = now
        let user = names(exchange.request.user)
        state.withLock { state in
            if exchange.open.isRepeat {
                state.checkRepeat(written.name, written.zone, written.code, written.place, exchange, time)
            }
            guard written.code == nil else { return }
            if exchange.open.removed.contains(Removal(user: user, zone: written.zone)) {
                state.reportViolation(
                    "j",
                    "\(exchange.device) wrote \(written.name) in \(written.zone) after its removal",
                    time
                )
            }
            state.taken.formUnion(written.texts)
            let truths = state.history[exchange.open.since...]
            let isFirst = !exchange.open.isRepeat && !exchange.open.isDoubled
            if isFirst, !truths.contains(where: { $0.lets(user, write: written.name, in: written.zone) }) {
                state.reportViolation(
                    "j",
                    "\(exchange.device) wrote \(written.name) in \(written.zone), and may not",
                    time
                )
            }
            guard !written.kind.lowercased().contains("delete") else {
                let isOld = exchange.open.isRepeat || exchange.open.isDoubled
                // The relay reports success to a caller who may not see the record, whether or not the record exists.
                let isSeen = truths.contains { $0.visible(written.zone, to: user)?[written.name] != nil }
                if !isOld, isSeen, !truths.contains(where: { $0[written.zone][written.name] == nil }) {
                    state.reportViolation(
                        "a",
                        "\(exchange.device) was told that \(written.name) is deleted, and it is not",
                        time
                    )
                }
                return
            }
            guard let number = written.number else { return }
            let chain = state.versionOrders[written.zone]?[written.name] ?? []
            guard let place = chain.lastIndex(of: number) else {
                if truths.contains(where: { $0.zones[written.zone] == nil }) { return }
                state.reportViolation(
                    "a",
                    "\(exchange.device) was told that \(written.name) in \(written.zone) is saved as \(String(number, radix: 36)), and it is not",
                    time
                )
                return
            }
            guard !exchange.open.isRepeat, !exchange.open.isDoubled else { return }
            let previous = place == 0 ? 0 : chain[place - 1]
            if written.kind == "update" || written.kind == "replace", let base = written.base,
                previous != UInt64(base, radix: 36)
            {
                state.reportViolation(
                    "h",
                    "\(written.name) in \(written.zone) was changed on \(base), which was not its latest version",
                    time
                )
            }
            if written.kind == "create", previous != 0 {
                state.reportViolation("h", "\(written.name) in \(written.zone) was created although it existed", time)
            }
        }
    }

    /// Records the user, by record name, who wrote a text in a program; does nothing if `user` is empty.
    func wrote(_ text: String, by user: String) {
        state.withLock { if !user.isEmpty { $0.writers[text] = user } }
    }

    /// Records the texts of a rejected operation, which must not appear unless a client tries to write them again.
    private func refuse(_ operation: JSONValue, in zone: ZoneName, _ exchange: Exchange) throws(JSONError) {
        guard let record = operation["record"], let fields = record["fields"],
            let name = try record["recordName"]?.string()
        else { return }
        let texts = try Self.texts(ofFields: fields)
        let time = now
        state.withLock { state in
            let home = RecordLocation(zone: zone, record: name)
            for text in texts.values where text.hasPrefix("~") {
                let isThere = state.history[exchange.open.since...].contains {
                    $0[zone][name]?.fields.values.contains(text) == true
                }
                let others = state.open.values.contains { $0.texts.contains(text) }
                guard !others, !state.taken.contains(text) else { continue }
                if isThere { state.reportViolation("g", "\(name) in \(zone) holds \(text), which was refused", time) }
                state.refused[text, default: []].insert(home)
            }
        }
    }
}

extension Checker.State {
    /// Checks that one user's text is not sent with the credentials of another user who signed in on the same device
    /// later.
    mutating func checkWriter(of text: String, sentBy user: String, _ time: Int64) {
        guard let writer = writers[text], writer != user, [writer, user].contains(isolatedUser) else { return }
        reportViolation("f", "\(text) of \(writer.prefix(6)) was sent in the name of \(user.prefix(6))", time)
    }

    /// Checks that a repeated operation which took effect the first time does not conflict with itself.
    fileprivate mutating func checkRepeat(
        _ record: String,
        _ zone: ZoneName,
        _ code: String?,
        _ place: Int,
        _ exchange: Exchange,
        _ time: Int64
    ) {
        guard let write = exchange.open.write, let took = done[write], took.indices.contains(place), took[place] else {
            return
        }
        if code == "CONFLICT" || code == "EXISTS" {
            reportViolation(
                "i",
                "\(exchange.device) repeated a write of \(record) in \(zone), and it conflicts with itself",
                time
            )
        }
    }
}
