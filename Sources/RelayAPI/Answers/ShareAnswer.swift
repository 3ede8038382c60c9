import Crypto
import Foundation
import Records
import RelayCore
import Wire

/// Writes the sharing members of records as one caller may see them.
///
/// See Wire.md, "Records" and "Shares". Participants see the other participants who have accepted, by name and without
/// addresses; the owner also sees invitations with the addresses that the owner entered. An invited person is
/// identified as a user of this relay only after accepting, or if the person is discoverable.
struct ShareAnswer {
    /// The request, with its caller and its sign-in address.
    let context: RequestContext
    /// Whether the caller sees the zone as a participant.
    var isParticipants: Bool

    /// The caller; `nil` for an anonymous caller with a public link.
    var viewer: UserID? { context.database.caller.user }
    private var home: ContainerEnvironment { context.home }
    private var authenticator: Authenticator { context.authenticator }
    private var signIn: SignInAddress { context.authentication.signIn }

    /// Writes the sharing members of a record into the open object, if it belongs to a share.
    func write(_ record: StoredRecord, in zone: ZoneID, to writer: inout JSONWriter) {
        guard let mark = record.shareReference else { return }
        writer.member("shortGUID", mark.shortGUID)
        let hash = SHA256.hash(data: Array(mark.shortGUID.utf8))
        writer.key("stableUrl")
        writer.object {
            $0.member("routingKey", String(mark.shortGUID.prefix(3)))
            $0.member("shortTokenHash", Base64.encode(Array(hash)))
        }
        if let share = record.sharing {
            write(share, named: record.name, in: zone, to: &writer)
        } else if let name = mark.record {
            writer.key("share")
            writer.object {
                $0.member("recordName", name)
                $0.key("zoneID")
                ZoneIDCodec.write(zone, to: &$0)
            }
        }
    }

    /// Returns whether the caller may not see the parent of this record.
    func hidesParent(of record: StoredRecord) -> Bool { isParticipants && record.shareReference?.record != nil }

    private func write(_ share: Share, named name: String, in zone: ZoneID, to writer: inout JSONWriter) {
        let owner = zone.owner
        let own = viewer.flatMap { share.participant($0) }
        let isOwner = viewer == owner
        let isManager = isOwner || own?.role == .administrator && own?.hasAccepted == true
        let shown = share.participants.filter { isManager || $0.hasAccepted && own?.hasAccepted == true || $0 == own }
        let asking = isManager ? share.requesters + share.blocked : []
        let people = profiles(of: shown.compactMap(\.user) + asking + [owner])
        writer.member("publicPermission", share.publicPermission.word)
        writer.member("url", url(share.shortGUID))
        writer.key("share")
        writer.object {
            $0.member("recordName", name)
            $0.key("zoneID")
            ZoneIDCodec.write(zone, to: &$0)
        }
        if let root = share.root {
            writer.key("rootRecord")
            writer.object { $0.member("recordName", root) }
        }
        writer.key("participants")
        writer.open(UInt8(ascii: "["))
        write(owner: owner, people, to: &writer)
        for participant in shown { write(participant, of: share, isManager, people, to: &writer) }
        writer.close(UInt8(ascii: "]"))
        writer.key("owner")
        write(owner: owner, people, to: &writer)
        if isManager { writeRequests(of: share, people, to: &writer) }
        guard isOwner || own != nil else { return }
        writer.key("currentUserParticipant")
        if let own, !isOwner {
            write(own, of: share, isManager, people, to: &writer)
        } else {
            write(owner: owner, people, to: &writer)
        }
    }

    /// Writes the requests for access, with the names of the users, who disclose them by requesting access.
    private func writeRequests(of share: Share, _ people: [UserID: UserProfile], to writer: inout JSONWriter) {
        func list(_ users: [UserID], to writer: inout JSONWriter) {
            writer.array(users) { writer, user in
                writer.object { $0.identity(of: user, people[user]?.account.name ?? PersonName()) }
            }
        }
        writer.key("accessRequests")
        writer.object { object in
            object.member("allowed", share.allowsAccessRequests)
            object.key("requesters")
            list(share.requesters, to: &object)
            object.key("blocked")
            list(share.blocked, to: &object)
        }
    }

    private func write(owner: UserID, _ people: [UserID: UserProfile], to writer: inout JSONWriter) {
        writer.object { writer in
            writer.member("participantId", ShareEdit.ownerID)
            writer.member("type", Share.Role.owner.word)
            writer.member("permission", Share.Permission.readWrite.word)
            writer.member("acceptanceStatus", "ACCEPTED")
            writer.key("userIdentity")
            writer.object { $0.identity(of: owner, people[owner]?.account.name ?? PersonName()) }
        }
    }

    private func write(
        _ participant: Share.Participant,
        of share: Share,
        _ isManager: Bool,
        _ people: [UserID: UserProfile],
        to writer: inout JSONWriter
    ) {
        writer.object { writer in
            writer.member("participantId", participant.id)
            writer.member("type", participant.role.word)
            writer.member("permission", participant.permission.word)
            writer.member("acceptanceStatus", participant.hasAccepted ? "ACCEPTED" : "INVITED")
            writer.key("userIdentity")
            writer.object { identity(of: participant, isManager, people, to: &$0) }
            if let added = participant.added { writer.member("dateAdded", added.milliseconds) }
            if participant.hasRequestedAccess { writer.member("isApprovedRequester", true) }
            if isManager, participant.user == nil, participant.contact == nil { writer.member("oneTimeLink", true) }
            if isManager, !participant.hasAccepted {
                let link = authenticator.invitations.link(share.shortGUID, for: participant.id)
                writer.member("invitationURL", url(link))
            }
        }
    }

    private func identity(
        of participant: Share.Participant,
        _ isManager: Bool,
        _ people: [UserID: UserProfile],
        to writer: inout JSONWriter
    ) {
        let isOwn = viewer != nil && participant.user == viewer
        if let user = participant.user {
            let profile = people[user]
            let isKnown = isOwn || participant.hasAccepted
            if isKnown || participant.contact == nil || profile?.isDiscoverable == true {
                let name = isKnown ? profile?.account.name : profile?.shownName
                writer.identity(of: user, name ?? PersonName())
            }
        }
        guard isManager || isOwn else { return }
        switch participant.contact {
        case .email(let address)?:
            writer.key("lookupInfo")
            writer.object { $0.member("emailAddress", address) }
        case .phone(let number)?:
            writer.key("lookupInfo")
            writer.object { $0.member("phoneNumber", number) }
        case nil:
            guard let user = participant.user, participant.role != .publicUser else { return }
            writer.key("lookupInfo")
            writer.object { $0.member("userRecordName", user.recordName) }
        }
    }

    /// Writes the owner's identity, which everybody with the link may see.
    func writeOwner(_ owner: UserID, to writer: inout JSONWriter) {
        let name = profiles(of: [owner])[owner]?.account.name
        writer.object { $0.identity(of: owner, name ?? PersonName()) }
    }

    /// Returns the URL of a link's page.
    func url(_ link: String) -> String {
        "\(signIn.base)/share/\(home.container.name)/\(home.environment.rawValue)/\(link)"
    }

    private func profiles(of users: [UserID]) -> [UserID: UserProfile] {
        // If the lookup fails, the user is returned without a name.
        let found = (try? authenticator.profiles(matching: users.map { .user($0) }, in: home)) ?? [:]
        return users.reduce(into: [:]) { $0[$1] = found[.user($1)] }
    }
}

extension RequestContext {
    /// The encoder of sharing members for this request's caller.
    var shareAnswer: ShareAnswer {
        ShareAnswer(context: self, isParticipants: database.scope == .shared)
    }
}
