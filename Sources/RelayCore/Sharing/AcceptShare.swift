package import Records
import Wire

/// A user who opens a share's link.
package struct ShareVisitor: Hashable, Sendable {
    package var caller: Caller
    /// The user's verified addresses.
    package var contacts: [Share.Contact]
    /// The participant whose private link the user opened, which proves that the invitation is theirs.
    package var provenParticipant: String?

    package init(caller: Caller, contacts: [Share.Contact] = [], provenParticipant: String? = nil) {
        self.caller = caller
        self.contacts = contacts
        self.provenParticipant = provenParticipant
    }
}

/// A visitor's relation to a share.
package enum ShareRelation: Hashable, Sendable {
    case owner
    case participant(Share.Participant)
    /// May join through the public link.
    case mayJoin(Share.Permission)
    /// As far as the relay can tell, not invited.
    case notInvited

    package init(_ visitor: ShareVisitor, to share: Share, of owner: UserID) {
        guard let user = visitor.caller.user else {
            self = share.publicPermission == .none ? .notInvited : .mayJoin(share.publicPermission)
            return
        }
        if user == owner {
            self = .owner
        } else if let known = share.participant(user), known.isNamed {
            self = .participant(known)
        } else if let invited = share.participants.first(where: { visitor.isProven(by: $0) }) {
            self = .participant(invited)
        } else if share.blocked.contains(user) {
            self = .notInvited
        } else if let invited = share.participants.first(where: { visitor.isIdentified(by: $0) }) {
            self = .participant(invited)
        } else {
            self = share.publicPermission == .none ? .notInvited : .mayJoin(share.publicPermission)
        }
    }
}

extension ShareVisitor {
    /// Whether the visitor opened the link that was sent only to this participant.
    fileprivate func isProven(by participant: Share.Participant) -> Bool {
        !participant.hasAccepted && participant.id == provenParticipant
    }

    /// Whether an invitation to an address is for this visitor.
    fileprivate func isIdentified(by participant: Share.Participant) -> Bool {
        guard !participant.hasAccepted, let contact = participant.contact else { return false }
        if let user = participant.user { return user == caller.user }
        return contacts.contains(contact)
    }
}

/// A share as its link's visitor sees it.
package struct FoundShare: Sendable {
    /// The zone as its owner sees it.
    package var zone: Zone
    package var record: StoredRecord
    package var share: Share
    /// The root record of a shared hierarchy; `nil` for a zone-wide share.
    package var root: StoredRecord?
    package var relation: ShareRelation

    package init(zone: Zone, record: StoredRecord, share: Share, root: StoredRecord?, relation: ShareRelation) {
        self.zone = zone
        self.record = record
        self.share = share
        self.root = root
        self.relation = relation
    }

    /// Whether the visitor joins by accepting the share.
    package var isJoinable: Bool {
        switch relation {
        case .owner, .notInvited: false
        case .participant(let known): !known.hasAccepted
        case .mayJoin: true
        }
    }
}

extension Share.Participant {
    /// Whether the owner may see which user the participant is: because they named the user, or because the user has
    /// joined.
    var isNamed: Bool { user != nil && (hasAccepted || contact == nil) }
}

extension Share {
    /// The participants who were invited by address and have not joined.
    ///
    /// Whether an address belongs to an account is not disclosed.
    package var openInvitations: [Participant] { participants.filter { !$0.hasAccepted && $0.contact != nil } }
}

/// Reads or accepts a share through its link.
///
/// `look` finds the share and its owner; the share is then changed by a write in that owner's data. See Wire.md, "Accepting shares".
package struct AcceptShare: Sendable {
    package var shortGUID: String
    package var visitor: ShareVisitor
    package var now: Timestamp
    /// The maximum number of participants in one share, including its owner.
    package var participantLimit: Int
    package var newID: @Sendable () -> String

    package init(
        _ shortGUID: String,
        by visitor: ShareVisitor,
        now: Timestamp,
        participantLimit: Int,
        newID: @escaping @Sendable () -> String
    ) {
        self.shortGUID = shortGUID
        self.visitor = visitor
        self.now = now
        self.participantLimit = participantLimit
        self.newID = newID
    }

    /// Returns the share behind the link, whether or not the visitor is invited.
    ///
    /// Throws `notFound` for a link that never existed and for one that is no longer valid.
    package func look(in reader: any StoreReader) throws(RelayError) -> FoundShare {
        guard let place = try reader.share(ofLink: shortGUID) else { throw .shareNotFound }
        let zone = place.zone
        guard let record = try reader.records(named: [place.record], in: zone)[place.record],
            let share = record.sharing
        else { throw .shareNotFound }
        let root = try share.root.flatMap { name throws(RelayError) in
            try reader.records(named: [name], in: zone)[name]
        }
        let relation = ShareRelation(visitor, to: share, of: zone.id.owner)
        return FoundShare(zone: zone, record: record, share: share, root: root, relation: relation)
    }

    /// What the write to a share that was found reads first.
    package func prefetch(of found: FoundShare) -> Prefetch {
        Prefetch([found.zone.id: [found.record.name] + (found.share.root.map { [$0] } ?? [])])
    }

    /// Accepts the share.
    ///
    /// Changes nothing if the visitor has already joined, is the owner or is not invited; the result's `relation` tells
    /// which.
    package func run(in writer: any StoreWriter) throws(RelayError) -> FoundShare {
        var found = try look(in: writer)
        guard let user = visitor.caller.user else { throw .accessDenied }
        var share = found.share
        switch found.relation {
        case .owner, .notInvited: return found
        case .participant(let known):
            guard !known.hasAccepted else { return found }
            share.participants = share.participants.compactMap { participant in
                guard participant.id == known.id else { return participant.user == user ? nil : participant }
                var joined = participant
                joined.user = user
                joined.hasAccepted = true
                return joined
            }
            leaveOpen(known, in: &share)
            share.requesters.removeAll { $0 == user }
        case .mayJoin(let permission):
            guard share.participants.count + 1 < participantLimit else { throw .tooManyParticipants(participantLimit) }
            var joined = Share.Participant(
                id: newID(),
                role: .publicUser,
                permission: permission,
                hasAccepted: true,
                user: user
            )
            joined.added = now
            share.participants.append(joined)
            share.requesters.removeAll { $0 == user }
        }
        found.record = try writer.save(share, in: found.record, of: found.zone, by: visitor.caller, now: now)
        found.zone = try writer.zone(found.zone.id) ?? found.zone
        found.share = share
        found.relation = ShareRelation(visitor, to: share, of: found.zone.id.owner)
        return found
    }
}

/// Requests access to a share from its owner.
///
/// An extension of CloudKit's wire format for the access requests of newer CloudKit clients. Throws `shareNotFound`
/// unless the share allows requests and the user is not blocked, so that its existence is not disclosed.
package struct RequestAccess: Sendable {
    package var opening: AcceptShare

    package init(_ opening: AcceptShare) { self.opening = opening }

    /// Does nothing if the user has already requested access or has it.
    package func run(in writer: any StoreWriter) throws(RelayError) {
        let found = try opening.look(in: writer)
        guard let user = opening.visitor.caller.user else { throw .accessDenied }
        switch found.relation {
        case .notInvited: break
        case .participant(let known) where !known.hasAccepted:
            throw RelayError(
                .badRequest,
                "This account is invited already. Accept the invitation.",
                fineCode: .participantAlreadyInvited
            )
        case .owner, .participant, .mayJoin: return
        }
        var share = found.share
        guard share.allowsAccessRequests, !share.blocked.contains(user) else { throw .shareNotFound }
        guard !share.requesters.contains(user) else { return }
        guard share.requesters.count < Share.requesterLimit else {
            throw RelayError(
                .tryAgainLater,
                "Too many people are waiting for the owner's answer.",
                retryAfter: .seconds(3600)
            )
        }
        share.requesters.append(user)
        _ = try writer.save(share, in: found.record, of: found.zone, by: opening.visitor.caller, now: opening.now)
    }
}

extension StoreWriter {
    /// Saves a share record with a changed share.
    func save(
        _ share: Share,
        in record: StoredRecord,
        of zone: Zone,
        by caller: Caller,
        now: Timestamp
    ) throws(RelayError) -> StoredRecord {
        var saved = record
        saved.sharing = share
        saved.change = takeChangeNumber()
        saved.modified = .init(
            at: now,
            by: caller.user ?? zone.id.owner,
            device: DeviceFingerprint(deviceID: caller.deviceID)
        )
        try put([saved], replacing: [saved.name: record], in: zone, by: caller.deviceID)
        return saved
    }
}

extension RelayError {
    package static let shareNotFound = RelayError(.notFound, "The link belongs to no share, or its share has ended.")

    /// The error for a user who, as far as the relay can tell, is not invited.
    package static func notInvited(_ share: Share) -> RelayError {
        let mayBeMeant = !share.openInvitations.isEmpty
        return RelayError(
            .accessDenied,
            mayBeMeant
                ? "This account is not among those invited. Sign in with the address that the invitation went to, or ask "
                    + "the owner for a link of your own."
                : "This account is not among those invited. Ask the owner to invite you.",
            fineCode: mayBeMeant ? .participantMayNeedVerification : nil
        )
    }
}
