import Crypto
import Foundation
import Records
import RelayCore
import Wire

extension RouteEntry {
    static let shares: [RouteEntry] = [
        .reading(.database("records/resolve"), by: .anonymous, resolveShares),
        .writing(.database("records/accept"), acceptShares),
        .writing(.database("records/requestaccess"), requestAccess),
    ]
}

/// `records/resolve`: returns the shares of links without accepting them.
///
/// See Wire.md, "Accepting shares".
private func resolveShares(_ context: RequestContext) throws -> EndpointAnswer {
    let links = try context.links()
    let visit = try context.visit()
    let found = try context.store.read { reader throws(RelayError) in
        try context.found(by: links) { link throws(RelayError) in try visit.acceptance(of: link).look(in: reader) }
    }
    if context.database.caller.user == nil {
        // An anonymous caller can resolve public links only. The error is the same for unknown links and private
        // shares.
        for outcome in found {
            guard case .success(let share) = outcome, case .mayJoin = share.relation else {
                throw context.authentication.signInRequired
            }
        }
    }
    return try context.answer(zip(links, found))
}

/// `records/accept`: accepts shares by their links.
///
/// See Wire.md, "Accepting shares".
private func acceptShares(_ context: RequestContext) throws -> EndpointStep {
    try context.requireUser()
    let links = try context.links()
    let visit = try context.visit()
    let found = try context.store.read { reader throws(RelayError) in
        try context.found(by: links) { link throws(RelayError) in try visit.acceptance(of: link).look(in: reader) }
    }
    let writes = visit.writes(to: found, of: links, where: \.isJoinable) { acceptance, writer throws(RelayError) in
        try acceptance.run(in: writer)
    }
    return try .writing(writes[...]) { outcomes in
        var found = found
        for (place, outcome) in outcomes.joined() { found[place] = outcome }
        return try context.answer(zip(links, found))
    }
}

/// `records/requestaccess`, a Zonecast extension: requests access to shares by their links.
///
/// The body is that of `records/resolve`. Each result contains its `shortGUID`, and an error if access cannot be
/// requested. The error is the same for unknown links, shares without access requests, and shares that block the
/// caller.
private func requestAccess(_ context: RequestContext) throws -> EndpointStep {
    try context.requireUser()
    let links = try context.links()
    let visit = try context.visit()
    let found = try context.store.read { reader throws(RelayError) in
        try links.map { link throws(RelayError) in
            try ShareLink.outcome { () throws(RelayError) in try visit.acceptance(of: link).look(in: reader) }
        }
    }
    let writes = visit.writes(to: found, of: links) { acceptance, writer throws(RelayError) in
        try RequestAccess(acceptance).run(in: writer)
    }
    return try .writing(writes[...]) { outcomes in
        var results = found.map { $0.map { _ in } }
        for (place, outcome) in outcomes.joined() { results[place] = outcome }
        return EndpointAnswer { writer in
            writer.key("results")
            writer.array(zip(links, results)) { writer, result in
                writer.object { object in
                    object.key("shortGUID")
                    object.object { $0.member("value", result.0.value) }
                    if case .failure(let error) = result.1 { object.members(of: error) }
                }
            }
        }
    }
}

extension RequestContext {
    /// Throws for anonymous callers and for server-to-server keys, which no share can have as participants.
    fileprivate func requireUser() throws {
        guard case .user = database.caller.identity else {
            if database.caller.user == nil { throw authentication.signInRequired }
            throw RelayError.accessDenied
        }
    }
}

/// One link of a request.
struct ShareLink: Sendable {
    var value: String
    var fetchesRoot: Bool
    var selection: FieldsJSON.Selection

    init(_ json: JSONValue, _ context: RequestContext) throws {
        let text = try json.required("value").string()
        // Of a complete URL, the last path component is used.
        let path = text.prefix { $0 != "#" && $0 != "?" }
        value = path.split(separator: "/").last.map(String.init) ?? ""
        fetchesRoot = try json["shouldFetchRootRecord"]?.bool() ?? false
        // The encoding of numbers is that of the whole request; `desiredKeys` have a different name here.
        selection = .init(numbersAsStrings: try context.selection(of: context.body).numbersAsStrings)
        if let keys = json["rootRecordDesiredKeys"] { selection.desiredKeys = Set(try stringArray(keys)) }
    }

    /// Rethrows errors of the store, which fail the request; all other errors affect only one link.
    static func outcome<Value>(
        _ body: () throws(RelayError) -> Value
    ) throws(RelayError) -> Result<Value, RelayError> {
        do throws(RelayError) {
            return .success(try body())
        } catch  where error.code == .tryAgainLater || error.code == .internalError {
            throw error
        } catch {
            return .failure(error)
        }
    }
}

/// A caller who opens links, with all that is needed to decide on each.
struct ShareAcceptanceContext: Sendable {
    var caller: Caller
    var contacts: [Share.Contact]
    var seal: InvitationSeal
    var now: Timestamp
    var participantLimit: Int
    var newID: @Sendable () -> String

    func acceptance(of link: ShareLink) -> AcceptShare { acceptance(of: link.value) }

    func acceptance(of link: String) -> AcceptShare {
        let (shortGUID, participant) = seal.open(link)
        let visitor = ShareVisitor(caller: caller, contacts: contacts, provenParticipant: participant)
        return AcceptShare(shortGUID, by: visitor, now: now, participantLimit: participantLimit, newID: newID)
    }

    /// Returns a write for each owner of shares that were found, with the outcome of each link and its place.
    func writes<Outcome: Sendable>(
        to found: [Result<FoundShare, RelayError>],
        of links: [ShareLink],
        where isConcerned: (FoundShare) -> Bool = { _ in true },
        _ body: @escaping @Sendable (AcceptShare, any StoreWriter) throws(RelayError) -> Outcome
    ) -> [WritePart<[(place: Int, outcome: Result<Outcome, RelayError>)]>] {
        var owners: [UserID] = []
        var shares: [UserID: [(place: Int, acceptance: AcceptShare)]] = [:]
        var prefetches: [UserID: Prefetch] = [:]
        for (place, (outcome, link)) in zip(found, links).enumerated() {
            guard case .success(let share) = outcome, isConcerned(share) else { continue }
            let (owner, acceptance) = (share.zone.id.owner, acceptance(of: link))
            if shares[owner] == nil { owners.append(owner) }
            shares[owner, default: []].append((place, acceptance))
            prefetches[owner, default: Prefetch()].records.merge(
                acceptance.prefetch(of: share).records,
                uniquingKeysWith: +
            )
        }
        return owners.map { owner in
            let own = shares[owner] ?? []
            return WritePart(owner: owner, prefetch: prefetches[owner] ?? Prefetch()) { writer throws(RelayError) in
                try own.map { share throws(RelayError) in
                    let outcome = try ShareLink.outcome { () throws(RelayError) in try body(share.acceptance, writer) }
                    return (share.place, outcome)
                }
            }
        }
    }
}

extension RequestContext {
    fileprivate func links() throws -> [ShareLink] {
        try items("shortGUIDs", of: body).map { try ShareLink($0, self) }
    }

    fileprivate func visit() throws -> ShareAcceptanceContext {
        ShareAcceptanceContext(
            caller: database.caller,
            contacts: try database.caller.user.map { try authenticator.contacts(of: $0, in: home) } ?? [],
            seal: authenticator.invitations,
            now: now,
            participantLimit: limits.participants,
            newID: newSecret
        )
    }

    /// Resolves links one by one; links that do not fit into the response get an error.
    ///
    /// An anonymous caller has room for little more than one share.
    fileprivate func found(
        by links: [ShareLink],
        _ follow: (ShareLink) throws(RelayError) -> FoundShare
    ) throws(RelayError) -> [Result<FoundShare, RelayError>] {
        var room = database.caller.user == nil ? limits.recordBytes : limits.answerBytes
        return try links.map { link throws(RelayError) in
            guard room > 0 else { return .failure(.tooMuch(for: limits)) }
            let outcome = try ShareLink.outcome { () throws(RelayError) in try follow(link) }
            if case .success(let share) = outcome {
                room -= share.record.fields.count + 512 * (share.share.participants.count + 1)
                if link.fetchesRoot { room -= share.root?.fields.count ?? 0 }
            }
            return outcome
        }
    }

    fileprivate func answer(
        _ found: some Sequence<(ShareLink, Result<FoundShare, RelayError>)>
    ) throws -> EndpointAnswer {
        try EndpointAnswer { writer in
            writer.key("results")
            writer.open(UInt8(ascii: "["))
            for (link, outcome) in found {
                writer.open(UInt8(ascii: "{"))
                writer.key("shortGUID")
                writer.object {
                    $0.member("value", link.value)
                    $0.member("shouldFetchRootRecord", link.fetchesRoot)
                }
                switch outcome {
                case .success(let share): try write(share, link, to: &writer)
                case .failure(let error): writer.members(of: error)
                }
                writer.close(UInt8(ascii: "}"))
            }
            writer.close(UInt8(ascii: "]"))
        }
    }

    private func write(_ found: FoundShare, _ link: ShareLink, to writer: inout JSONWriter) throws {
        guard found.relation != .notInvited else { return refuse(found, to: &writer) }
        var answer = shareAnswer
        answer.isParticipants = found.relation != .owner
        let links = assetLinks(for: assetTypes, in: found.relation == .owner ? .private : .shared)
        writer.member("containerIdentifier", home.container.name)
        writer.member("environment", home.environment.rawValue)
        writer.member("databaseScope", found.relation == .owner ? "PRIVATE" : "SHARED")
        writer.key("zoneID")
        ZoneIDCodec.write(found.zone.id, to: &writer)
        if let root = found.share.root { writer.member("rootRecordName", root) }
        if link.fetchesRoot, let root = found.root, !root.isDeleted, database.caller.user != nil {
            writer.key("rootRecord")
            var records = RecordAnswer(
                zone: found.zone.id,
                selection: link.selection,
                links: links,
                shares: answer
            )
            try records.write(root, to: &writer)
        }
        writer.key("share")
        let whole = FieldsJSON.Selection(numbersAsStrings: link.selection.numbersAsStrings)
        var share = RecordAnswer(zone: found.zone.id, selection: whole, links: nil, shares: answer)
        try share.write(found.record, to: &writer)
        writer.key("ownerIdentity")
        answer.writeOwner(found.zone.id.owner, to: &writer)
        write(found.relation, of: found.share, to: &writer)
        writer.emptyList("potentialMatchList")
        writer.key("webpageURL")
        writer.null()
    }

    private func write(_ relation: ShareRelation, of share: Share, to writer: inout JSONWriter) {
        let (role, status, permission): (String, String, Share.Permission) =
            switch relation {
            case .owner: (Share.Role.owner.word, "ACCEPTED", .readWrite)
            case .participant(let known):
                (known.role.word, known.hasAccepted ? "ACCEPTED" : "INVITED", known.permission)
            case .mayJoin(let permission): (Share.Role.publicUser.word, "INVITED", permission)
            case .notInvited: ("UNKNOWN", "UNKNOWN", .none)
            }
        writer.member("participantType", role)
        writer.member("participantStatus", status)
        writer.member("participantPermission", permission.word)
    }

    /// Writes the error for a caller who is not invited; it reveals only masked addresses of open invitations.
    private func refuse(_ found: FoundShare, to writer: inout JSONWriter) {
        writer.members(of: .notInvited(found.share))
        write(found.relation, of: found.share, to: &writer)
        writer.key("potentialMatchList")
        writer.array(found.share.openInvitations) { writer, participant in
            writer.object { writer in
                writer.member("participantId", participant.id)
                writer.key("contactInformation")
                writer.object { writer in
                    switch participant.contact {
                    case .email(let address)?: writer.member("emailAddress", Share.Contact.masked(address))
                    case .phone(let number)?: writer.member("phoneNumber", "…" + String(number.suffix(3)))
                    case nil: break
                    }
                }
            }
        }
    }
}

extension Share.Contact {
    /// Returns the first letter and the domain of an address, enough for its owner to recognize it.
    static func masked(_ address: String) -> String {
        let parts = address.split(separator: "@", maxSplits: 1)
        guard parts.count == 2 else { return "…" }
        return "\(parts[0].prefix(1))…@\(parts[1])"
    }
}

/// The personal part of an invitation link.
///
/// It proves that its holder is the invited person, whatever addresses their account has, because it was sent only to
/// the invited address. Format: `{shortGUID}~{participantId}.{tag}`. The tag is the first 16 bytes of an HMAC with a
/// key derived from the relay's key, so the relay stores nothing. It becomes invalid when the invitation ends. See
/// Wire.md, "Accepting shares".
struct InvitationSeal: Sendable {
    private let key: SymmetricKey

    init(relayKey: [UInt8]) {
        key = SymmetricKey(relayKey: relayKey, purpose: "zonecast invitations 1")
    }

    /// Returns the text that replaces the short GUID in this participant's link.
    func link(_ shortGUID: String, for participant: String) -> String {
        "\(shortGUID)~\(participant).\(Base64URL.encode(Array(tag(shortGUID, participant).prefix(16))))"
    }

    /// Splits a link into its short GUID and the participant it was issued to, if the tag is valid.
    func open(_ link: String) -> (shortGUID: String, participant: String?) {
        let parts = link.split(separator: "~", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        guard parts.count == 2, let dot = parts[1].lastIndex(of: "."),
            let given = Base64URL.decode(parts[1][parts[1].index(after: dot)...].utf8), given.count == 16
        else { return (parts[0], nil) }
        let participant = String(parts[1][..<dot])
        let isOurs = ConstantTime.areEqual(given, Array(tag(parts[0], participant).prefix(16)))
        return (parts[0], isOurs ? participant : nil)
    }

    private func tag(_ shortGUID: String, _ participant: String) -> HMAC<SHA256>.MAC {
        HMAC<SHA256>.authenticationCode(for: Array("\(shortGUID)/\(participant)".utf8), using: key)
    }
}
