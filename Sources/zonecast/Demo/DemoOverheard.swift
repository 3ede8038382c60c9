import Foundation
import Records
import Wire
import ZoneKit

/// Translates a client's requests and responses into log steps; a pure function of the exchanged bytes.
enum DemoOverheard {
    struct Step: Equatable, Sendable {
        var who: String
        var what: String
        var detail: String

        init(_ who: String, _ what: String, _ detail: String) {
            self.who = who
            self.what = what
            self.detail = detail
        }
    }

    /// Whether the request may cause notices to other clients.
    static func isWrite(_ request: RelayRequest) -> Bool {
        ["/records/modify", "/records/move", "/zones/modify"].contains { request.path.hasSuffix($0) }
    }

    static func steps(_ request: RelayRequest, _ response: RelayResponse, client: String) -> [Step] {
        guard let root = try? JSONDocument(parsing: response.body, limits: .response).root else { return [] }
        if request.path.hasSuffix("/records/modify") { return modified(root, client) }
        if request.path.hasSuffix("/changes/zone") { return fetched(request, root, client) }
        if request.path.hasSuffix("/records/move") { return moved(root) }
        if request.path.hasSuffix("/zones/modify") { return zones(root, client) }
        return []
    }

    private static func modified(_ root: JSONValue, _ client: String) -> [Step] {
        var steps: [Step] = []
        try? ClientResponse.records(root, zone: nil) { entry in
            switch entry {
            case .record(let record):
                let what = "\(record.type)/\(record.id.recordName)  tag \(record.changeTag ?? "–")"
                steps.append(Step("relay", "commit", what))
            case .share(let record, _):
                var title = ""
                if case .string(let text)? = record.fields["cloudkit.title"] { title = " \"\(text)\"" }
                let what = "share\(title)  tag \(record.changeTag ?? "–")"
                steps.append(Step("relay", "commit", what))
            case .deleted(let name, let type, _):
                let what = "\(type ?? "Note")/\(name) deleted"
                steps.append(Step("relay", "commit", what))
            case .failed(let name, let failure): steps += refused(name, failure, client)
            }
        }
        return steps
    }

    private static func refused(_ name: String?, _ failure: ClientResponse.Failure, _ client: String) -> [Step] {
        let name = name ?? "a record"
        switch failure.error.code {
        case .conflict:
            let what = "Note/\(name) has changed on the relay too: merged here and sent again"
            return [Step(client, "conflict", what)]
        // Another record of the same request is the cause, and is reported itself.
        case .atomicError: return []
        default:
            let what = "Note/\(name) by \(client): \(failure.error.code.rawValue)"
            return [Step("relay", "refuse", what)]
        }
    }

    private static func fetched(_ request: RelayRequest, _ root: JSONValue, _ client: String) -> [Step] {
        guard let entry = try? root.required("zones").elements().first,
            let end = try? ClientResponse.pageEnd(entry)
        else { return [] }
        var (changed, deleted) = (0, 0)
        try? ClientResponse.records(entry, zone: nil) { item in
            switch item {
            case .record, .share: changed += 1
            case .deleted: deleted += 1
            case .failed: break
            }
        }
        guard changed + deleted > 0 else { return [] }
        let asked = try? JSONDocument(parsing: request.body, limits: .response).root.required("zones").elements().first
        let since = (try? asked?["syncToken"]?.string()).flatMap { $0 }
        let name = (try? ClientResponse.zone(of: entry)).flatMap { $0 }.map { zone($0.zoneName) } ?? "a zone"
        let (from, to) = (position(since), position(end.syncToken))
        let what = "\(name) since \(from) → \(changed) changed, \(deleted) deleted, token \(to)"
        return [Step(client, "fetch", what)]
    }

    /// Records that move when a share begins or ends, all in one commit or not at all.
    private static func moved(_ root: JSONValue) -> [Step] {
        let entries = (try? root.required("records").elements()) ?? []
        let names = entries.compactMap { entry in
            entry["serverErrorCode"] == nil ? try? entry["recordName"]?.string() : nil
        }
        let target = root["destination"].flatMap { (try? ClientResponse.zone(of: $0)).flatMap { $0 } }
        guard let target, !names.isEmpty else { return [] }
        let what = "\(names.joined(separator: ", ")) moved to \(zone(target.zoneName)), all at once"
        return [Step("relay", "commit", what)]
    }

    private static func zones(_ root: JSONValue, _ client: String) -> [Step] {
        let entries = (try? ClientResponse.zones(root)) ?? []
        return entries.compactMap { entry in
            switch entry {
            case .zone(let made):
                Step("relay", "commit", "zone \(zone(made.id.zoneName)) of \(client)")
            case .deleted(let gone, _):
                Step("relay", "commit", "zone \(zone(gone.zoneName)) deleted")
            case .failed: nil
            }
        }
    }

    /// Returns a change token's position, for comparison.
    static func position(_ token: String?) -> String {
        token.flatMap { ChangeToken(encoded: $0) }.map { "\($0.position)" } ?? "–"
    }

    /// Returns a zone's name for the log; shortens the UUID of a share's zone.
    static func zone(_ name: String) -> String {
        guard name.hasPrefix("com.apple.coredata.cloudkit.share.") else { return name }
        return "share-\(name.suffix(4).lowercased())"
    }
}
