import Records
import RelayAPI
import Synchronization
import Wire
import ZoneTesting

extension Judge {
    /// The texts that a request asks to be written.
    static func texts(ofOperations body: JSONValue) -> [String] {
        guard let operations = try? body["operations"]?.elements() else { return [] }
        return operations.flatMap { operation -> [String] in
            guard let fields = operation["record"]?["fields"], let members = try? fields.members() else { return [] }
            return members.compactMap { try? $0.value["value"]?.string() }
        }
    }

    /// The zone that a request or answer names.
    func zone(_ json: JSONValue?, of request: APIRequest) -> ZoneName? {
        guard let json, let name = try? json["zoneName"]?.string() else {
            return ZoneName(owner: names(request.user), name: ZoneID.defaultName)
        }
        let owner = try? json["ownerRecordName"]?.string()
        let isCaller = owner == nil || owner == UserID.caller.recordName || owner == "__defaultOwner__"
        return ZoneName(owner: isCaller ? names(request.user) : owner ?? "", name: name)
    }

    /// A user's record name, once the driver has told it.
    func names(_ user: String) -> String { people.withLock { $0[user] } ?? user }

    // MARK: Writes

    /// What is acknowledged is committed, and of the updates of one version one was.
    func judgeWrite(_ asked: JSONValue, _ said: JSONValue, _ request: APIRequest) throws(JSONError) {
        guard !request.path.contains("/public/"), let answers = try said["records"]?.elements(),
            let operations = try asked["operations"]?.elements(),
            let zone = zone(asked["zoneID"], of: request), answers.count == operations.count
        else { return }
        for (operation, answer) in zip(operations, answers) {
            let words = try Self.words(operation, answer)
            note(words)
            guard answer["serverErrorCode"] == nil, let tag = try answer["recordChangeTag"]?.string(),
                let name = try answer["recordName"]?.string(), let number = UInt64(tag, radix: 36)
            else { continue }
            let kind = try operation["operationType"]?.string() ?? ""
            let base = try operation["record"]?["recordChangeTag"]?.string()
            if try answer["recordType"]?.string() == Share.recordType { continue }
            let time = clock.now.offset.inMilliseconds
            state.withLock { state in
                if state.committed[zone]?[name]?.contains(number) != true {
                    state.accuse(
                        "a",
                        "\(request.device) was told that \(name) in \(zone) is saved as \(tag), and it is not",
                        time
                    )
                }
                guard kind == "update", let base else { return }
                let version = Base(zone: zone, record: name, tag: base)
                if let winner = state.winners.updateValue(number, forKey: version), winner != number {
                    state.accuse("h", "two updates of \(name) in \(zone) on \(base) were taken", time)
                }
            }
        }
    }

    /// One write and what became of it, for the trace.
    private static func words(_ operation: JSONValue, _ answer: JSONValue) throws(JSONError) -> String {
        let kind = try operation["operationType"]?.string() ?? "?"
        let name = try operation["record"]?["recordName"]?.string() ?? "?"
        let base = try operation["record"]?["recordChangeTag"]?.string() ?? "-"
        let (code, tag) = (try answer["serverErrorCode"]?.string(), try answer["recordChangeTag"]?.string())
        let result = code ?? tag ?? "done"
        return "    \(kind) \(name) on \(base): \(result)"
    }

    // MARK: Feeds

    /// A page continues what its reader had, and at its end the reader has what the zone was.
    func judgeFeed(
        _ asked: JSONValue,
        _ said: JSONValue,
        _ request: APIRequest,
        _ barred: Set<Removal>
    ) throws(JSONError) {
        let questions = try asked["zones"]?.elements() ?? []
        for (index, page) in try (said["zones"]?.elements() ?? []).enumerated() {
            guard page["serverErrorCode"] == nil, let zone = zone(page["zoneID"], of: request),
                let token = try page["syncToken"]?.string()
            else { continue }
            if barred.contains(Removal(user: names(request.user), zone: zone)) {
                accuse("j", "\(request.device) was served \(zone) after its removal from the share")
            }
            let since = index < questions.count ? try questions[index]["syncToken"]?.string() : nil
            try judge(page, of: zone, since: since, token, request)
        }
    }

    private func judge(
        _ page: JSONValue,
        of zone: ZoneName,
        since: String?,
        _ token: String,
        _ request: APIRequest
    ) throws(JSONError) {
        let before: [String: UInt64]?
        if let since { before = state.withLock { $0.known[since]?.tags } } else { before = [:] }
        guard var tags = before else { return }
        var seen: Set<String> = []
        for record in try page["records"]?.elements() ?? [] {
            let name = try record.required("recordName").string()
            if !seen.insert(name).inserted { accuse("c", "\(name) is twice in one page of \(zone)") }
            if try record["deleted"]?.bool() == true {
                tags[name] = nil
            } else if try record["recordType"]?.string() != Share.recordType {
                let tag = try record.required("recordChangeTag").string()
                let number = UInt64(tag, radix: 36) ?? 0
                if let old = tags[name], old > number {
                    accuse("c", "\(name) in \(zone) went back from \(old) to \(number)")
                }
                tags[name] = number
            }
        }
        let moreComing = try page["moreComing"]?.bool() ?? false
        let time = clock.now.offset.inMilliseconds
        state.withLock { state in
            state.known[token] = Known(zone: zone, tags: tags)
            guard !moreComing, let position = ChangeToken(encoded: token)?.position,
                let records = state.snapshot(of: zone, at: position)
            else { return }
            let expected = records.mapValues(\.change)
            guard tags != expected else { return }
            let missing = Set(expected.keys).subtracting(tags.keys).sorted()
            let extra = Set(tags.keys).subtracting(expected.keys).sorted()
            let older = expected.filter { tags[$0.key] != nil && tags[$0.key] != $0.value }.keys.sorted()
            state.accuse(
                "b",
                "the feed of \(zone) up to \(position) leaves \(request.device) without \(missing), with \(extra) too many, and \(older) in other versions",
                time
            )
        }
    }
}
