/// What a mirror knows about a record on the relay.
///
/// The table of all transitions is in RecordStates.md, "Records". `RecordTable` stores the raw value and performs the
/// effects.
package enum RecordState: String, CaseIterable, Sendable {
    /// The store has no row for the record.
    case absent
    /// The object has an address, and the relay has no record there.
    case new
    /// The relay may have the record: it was sent as a new one, and the outcome is unknown.
    case creating
    /// The store has the relay's last known version.
    case synced
    /// Like `synced`, but some values are encrypted with a key that this device does not have.
    case locked
    /// The relay has a version that was not imported; the next version that arrives is imported in any case.
    case outdated
    /// The record is expected in this zone; it is fetched by name at the end of the round unless it arrives before.
    case awaited
    /// The relay has the record in the zone that its object has left.
    case moving
    /// Like `moving`, but a copy was sent to the new zone, and the outcome is unknown.
    case copying
    /// The record still exists, but this user can no longer see it; its object goes at the end of the round.
    case invisible

    /// Whether the relay is known to have the record under its present address.
    package var isInZone: Bool {
        switch self {
        case .synced, .locked, .outdated, .awaited, .invisible: true
        case .absent, .new, .creating, .moving, .copying: false
        }
    }

    /// Whether the relay has the record only in the zone that its object has left.
    package var isMoving: Bool {
        switch self {
        case .moving, .copying: true
        case .absent, .new, .creating, .synced, .locked, .outdated, .awaited, .invisible: false
        }
    }

    /// Whether the store has the version that the relay has under the present address, as far as is known.
    package var hasVersion: Bool {
        switch self {
        case .synced, .locked, .invisible: true
        case .absent, .new, .creating, .outdated, .awaited, .moving, .copying: false
        }
    }

    /// Whether a deletion must be sent, because the relay has the record or may have it.
    package var mayBeInZone: Bool { isInZone || self == .creating || self == .copying }
}

/// What happens to a record.
package enum RecordEvent: String, CaseIterable, Sendable {
    /// The object got a zone and a record name.
    case addressed
    /// The object is about to be sent as a new record.
    case createSent
    /// The relay refused the new record.
    case createRefused
    /// A version arrived, in a page, a lookup or an answer.
    case received
    /// A version arrived with values that this device cannot decrypt.
    case receivedLocked
    /// The relay has a version that is not imported: the answer to a repeated write shows another device's values, or
    /// the model cannot read the version while a change is unsent.
    case superseded
    /// The store needs values of the record that were not fetched.
    case contentMissing
    /// The relay no longer has the record; its object stays.
    case vanished
    /// The object was assigned to another zone of the user.
    case reassigned
    /// The object was assigned to the zone that its record has not left yet.
    case returned
    /// The answer to a write in the zone that the object has left: the relay has saved it there.
    case originalSaved
    /// The relay has moved the record to the object's zone.
    case moved
    /// The record is gone from the zone that its object has left, and its object stays.
    case originalGone
    /// The feed of the record's zone says that the record has moved to another zone.
    case expected
    /// The zone has ended while the object had unsent changes: the object goes to the home zone.
    case zoneEnded
    /// The user can no longer see the record.
    case hidden
    /// The record is gone with its object.
    case removed
}

/// What else the store does in a transition.
package enum RecordEffect: String, CaseIterable, Sendable {
    /// Stores the address and version under which the relay has the record.
    case keepOriginal
    /// Forgets that address.
    case forgetOriginal
    /// Forgets the parent and the share.
    case dropParent
    /// Notes that the round ends with a fetch of this record by name.
    case lookUp
    /// Queues the object to be sent.
    case queueSave
    /// Makes the object's unsent change sendable.
    case releaseChange
}

/// The state after an event, and the effects.
package struct RecordTransition: Equatable, Sendable {
    /// The next state.
    package let state: RecordState
    /// In the order in which they are performed.
    package let effects: [RecordEffect]

    fileprivate init(_ state: RecordState, _ effects: RecordEffect...) {
        self.state = state
        self.effects = effects
    }
}

extension RecordState {
    /// Returns the transition for an event.
    package func after(_ event: RecordEvent) -> RecordTransition {
        switch event {
        case .addressed:
            switch self {
            case .absent: .init(.new)
            case .new, .creating, .synced, .locked, .outdated, .awaited, .moving, .copying, .invisible: .init(self)
            }
        case .createSent:
            switch self {
            case .absent, .new, .creating: .init(.creating)
            case .moving, .copying: .init(.copying)
            case .synced, .locked, .outdated, .awaited, .invisible: .init(self)
            }
        case .createRefused:
            switch self {
            case .new, .creating: .init(.new)
            case .moving, .copying: .init(.moving)
            case .absent, .synced, .locked, .outdated, .awaited, .invisible: .init(self)
            }
        case .received: .init(.synced)
        case .receivedLocked: .init(.locked)
        case .superseded:
            switch self {
            case .new, .creating, .synced, .locked, .outdated, .awaited, .moving, .copying: .init(.outdated)
            case .absent, .invisible: .init(self)
            }
        case .contentMissing:
            switch self {
            case .synced, .locked, .outdated, .awaited: .init(.awaited, .lookUp)
            case .absent, .new, .creating, .moving, .copying, .invisible: .init(self)
            }
        case .vanished:
            switch self {
            case .new, .creating, .synced, .locked, .outdated, .awaited, .invisible: .init(.new, .releaseChange)
            case .moving, .copying: .init(.moving, .releaseChange)
            case .absent: .init(self)
            }
        case .reassigned:
            switch self {
            case .absent: .init(.new, .queueSave)
            case .new, .creating, .moving, .copying: .init(self, .dropParent, .queueSave)
            case .synced, .locked, .outdated, .awaited, .invisible:
                .init(.moving, .keepOriginal, .dropParent, .queueSave)
            }
        case .returned:
            switch self {
            case .moving, .copying: .init(.outdated, .forgetOriginal, .dropParent, .queueSave)
            case .absent, .new, .creating, .synced, .locked, .outdated, .awaited, .invisible: .init(self)
            }
        case .originalSaved:
            switch self {
            case .new, .moving: .init(.moving, .keepOriginal)
            case .creating, .copying: .init(.copying, .keepOriginal)
            case .synced, .locked, .outdated, .awaited, .invisible: .init(self, .keepOriginal)
            case .absent: .init(self)
            }
        case .moved:
            switch self {
            case .new, .creating, .moving, .copying: .init(.outdated, .forgetOriginal)
            case .synced, .locked, .outdated, .awaited, .invisible: .init(self, .forgetOriginal)
            case .absent: .init(self)
            }
        case .originalGone:
            switch self {
            case .moving: .init(.new, .forgetOriginal)
            case .copying: .init(.creating, .forgetOriginal)
            case .new, .creating, .synced, .locked, .outdated, .awaited, .invisible: .init(self, .forgetOriginal)
            case .absent: .init(self)
            }
        case .expected:
            switch self {
            case .new, .creating, .synced, .locked, .outdated, .awaited, .moving, .copying, .invisible:
                .init(.awaited, .forgetOriginal, .dropParent, .releaseChange, .lookUp)
            case .absent: .init(self)
            }
        case .zoneEnded:
            switch self {
            case .new, .synced, .locked, .outdated, .awaited, .invisible: .init(.new, .dropParent, .releaseChange)
            case .creating, .moving, .copying: .init(self, .dropParent, .releaseChange)
            case .absent: .init(self)
            }
        case .hidden:
            switch self {
            case .new, .creating, .synced, .locked, .outdated, .awaited, .moving, .copying, .invisible:
                .init(.invisible)
            case .absent: .init(self)
            }
        case .removed: .init(.absent)
        }
    }
}

/// What stands before an object's unsent change.
///
/// The table of all transitions is in RecordStates.md, "Changes".
package enum ChangeState: String, CaseIterable, Sendable {
    /// The object has no unsent change.
    case none
    /// The change can be sent.
    case ready
    /// The change waits for another object, a zone or a key.
    case waiting
    /// The user has too many zones to create the one that the change needs.
    case noZone
    /// The model no longer has the object's entity.
    case noTable
    /// The change belongs to a user who is not signed in.
    case parked
    /// The relay refused the newest change, which waits for a decision.
    case refused
}

/// What happens to an object's unsent change.
package enum ChangeEvent: String, CaseIterable, Sendable {
    /// The object was changed, or is queued without a change.
    case edited
    /// What the change depends on is not on the relay or not here yet.
    case dependencyMissing
    /// The change's zone cannot be created, because the user has too many.
    case zoneRefused
    /// The model does not have the change's entity.
    case entityMissing
    /// What the change waited for may have arrived.
    case dependencyArrived
    /// The object's record or zone has changed, so that the reason to wait no longer holds.
    case released
    /// There may be room for another zone.
    case zoneFreed
    /// The model may have the entity again.
    case entityReturned
    /// The relay confirmed the change.
    case confirmed
    /// The relay confirmed an earlier change of the object.
    case earlierConfirmed
    /// The relay refused the change for good.
    case refused
    /// The change was undone, or nothing is left to send.
    case discarded
    /// The app has retried or discarded the refused change; a retried one is `edited` again.
    case decided
    /// Another user signed in.
    case userLeft
    /// The change's user signed in again.
    case userReturned
}

extension ChangeState {
    /// Returns the state after an event.
    package func after(_ event: ChangeEvent) -> ChangeState {
        switch event {
        case .edited:
            switch self {
            case .none, .ready, .waiting, .noZone, .noTable, .refused: .ready
            case .parked: .parked
            }
        case .dependencyMissing: held(as: .waiting)
        case .zoneRefused: held(as: .noZone)
        case .entityMissing: held(as: .noTable)
        case .dependencyArrived: self == .waiting ? .ready : self
        case .released:
            switch self {
            case .ready, .waiting, .noZone, .noTable: .ready
            case .none, .parked, .refused: self
            }
        case .zoneFreed: self == .noZone ? .ready : self
        case .entityReturned: self == .noTable ? .ready : self
        case .confirmed:
            switch self {
            case .none, .ready, .waiting, .noZone, .noTable, .parked: .none
            case .refused: .refused
            }
        case .earlierConfirmed: self
        case .refused: .refused
        case .discarded:
            switch self {
            case .none, .ready, .waiting, .noZone, .noTable, .parked: .none
            case .refused: .refused
            }
        case .decided: self == .refused ? .none : self
        case .userLeft:
            switch self {
            case .ready, .waiting, .noZone, .noTable: .parked
            case .none, .parked, .refused: self
            }
        case .userReturned: self == .parked ? .ready : self
        }
    }

    private func held(as reason: ChangeState) -> ChangeState {
        switch self {
        case .ready, .waiting, .noZone, .noTable: reason
        case .none, .parked, .refused: self
        }
    }
}
