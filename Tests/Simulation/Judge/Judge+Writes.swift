import HTTPTypes
import Records
import RelayAPI
import Synchronization
import Wire
import ZoneTesting

/// Writes: an acknowledged write is stored, one of several concurrent writes wins, a rejected write leaves no trace,
/// and a repeated write is applied once.
extension Judge {
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

    func judgeWrite(_ asked: JSONValue, _ said: JSONValue, _ exchange: Exchange) throws(JSONError) {
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
            if !isShare, !asksForShare { judge(written, exchange) }
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

    private func judge(_ written: Written, _ exchange: Exchange) {
        let time = now
        let user = names(exchange.request.user)
        state.withLock { state in
            if exchange.open.isRepeat {
                state.judgeRepeat(written.name, written.zone, written.code, written.place, exchange, time)
            }
            guard written.code == nil else { return }
            if exchange.open.removed.contains(Removal(user: user, zone: written.zone)) {
                state.accuse("j", "\(exchange.device) wrote \(written.name) in \(written.zone) after its removal", time)
            }
            state.taken.formUnion(written.texts)
            let truths = state.history[exchange.open.since...]
            let isFirst = !exchange.open.isRepeat && !exchange.open.isDoubled
            if isFirst, !truths.contains(where: { $0.lets(user, write: written.name, in: written.zone) }) {
                state.accuse("j", "\(exchange.device) wrote \(written.name) in \(written.zone), and may not", time)
            }
            guard !written.kind.lowercased().contains("delete") else {
                let isOld = exchange.open.isRepeat || exchange.open.isDoubled
                // The relay reports success to a caller who may not see the record, whether or not the record exists.
                let isSeen = truths.contains { $0.visible(written.zone, to: user)?[written.name] != nil }
                if !isOld, isSeen, !truths.contains(where: { $0[written.zone][written.name] == nil }) {
                    state.accuse(
                        "a",
                        "\(exchange.device) was told that \(written.name) is deleted, and it is not",
                        time
                    )
                }
                return
            }
            guard let number = written.number else { return }
            let chain = state.chains[written.zone]?[written.name] ?? []
            guard let place = chain.lastIndex(of: number) else {
                if truths.contains(where: { $0.zones[written.zone] == nil }) { return }
                state.accuse(
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
                state.accuse(
                    "h",
                    "\(written.name) in \(written.zone) was changed on \(base), which was not its latest version",
                    time
                )
            }
            if written.kind == "create", previous != 0 {
                state.accuse("h", "\(written.name) in \(written.zone) was created although it existed", time)
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
            let home = Home(zone: zone, record: name)
            for text in texts.values where text.hasPrefix("~") {
                let isThere = state.history[exchange.open.since...].contains {
                    $0[zone][name]?.fields.values.contains(text) == true
                }
                let others = state.open.values.contains { $0.texts.contains(text) }
                guard !others, !state.taken.contains(text) else { continue }
                if isThere { state.accuse("g", "\(name) in \(zone) holds \(text), which was refused", time) }
                state.refused[text, default: []].insert(home)
            }
        }
    }
}

extension Judge.State {
    /// Checks that one user's text is not sent with the credentials of another user who signed in on the same device
    /// later.
    mutating func judgeWriter(of text: String, sentBy user: String, _ time: Int64) {
        guard let writer = writers[text], writer != user, [writer, user].contains(loner) else { return }
        accuse("f", "\(text) of \(writer.prefix(6)) was sent in the name of \(user.prefix(6))", time)
    }

    /// Checks that a repeated operation which took effect the first time does not conflict with itself.
    fileprivate mutating func judgeRepeat(
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
            accuse(
                "i",
                "\(exchange.device) repeated a write of \(record) in \(zone), and it conflicts with itself",
                time
            )
        }
    }
}
