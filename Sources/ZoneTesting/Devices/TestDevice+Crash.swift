extension TestDevice {
    /// A place at which a device may be made to crash.
    public enum CrashPlace: Hashable, Sendable {
        /// A request, such as `records/modify`, is about to leave.
        case sending(String)
        /// The relay has answered a request, and nothing of the answer is known to the program yet.
        case answered(String)
        /// A mirror has come to a place of its own work.
        case mirror(MirrorPlace)

        func isMet(by place: CrashPlace) -> Bool {
            switch (self, place) {
            case (.sending(let wanted), .sending(let met)), (.answered(let wanted), .answered(let met)):
                met.hasSuffix(wanted)
            case (.mirror(let wanted), .mirror(let met)): wanted == met
            default: false
            }
        }
    }

    /// Where a mirror's work can be cut off.
    public enum MirrorPlace: String, Hashable, Sendable, CaseIterable {
        /// A batch is marked as perhaps sent; nothing is sent yet.
        case beforeSend
        /// The relay has answered; nothing of it is written down yet.
        case afterSend
        /// The confirmation is written and not yet committed.
        case insideConfirm
        /// The confirmation is committed.
        case afterConfirm
        /// A page of changes has come; nothing of it is written down yet.
        case beforeImport
        /// The page's rows are written and not yet committed.
        case insideImport
        /// The page is committed.
        case afterImport
        /// The zones of a page of the database's feed are written and not yet committed.
        case insideDatabasePage
        /// Half of a listing from the beginning is in.
        case insideSweep
    }

    /// Ends the program on this device at once, in the middle of whatever it does: its engines, mirrors and pollers never
    /// act again, and its requests come to nothing or are carried out, as it happens.
    public func crash() { life.end() }

    /// Ends the program on this device when it comes to a place.
    ///
    /// - Parameters:
    ///   - place: Where.
    ///   - times: When it is there for the so-manieth time from now on, counted from 1.
    public func crash(at place: CrashPlace, times: Int = 1) { life.awaitCrash(place, skipping: times - 1) }

    /// Whether the program has crashed.
    public var hasCrashed: Bool { party.isGone }

    /// The same device in its next life, online, with the files of its folder as they were at the crash.
    ///
    /// A device that has not crashed does so now.
    ///
    /// - Returns: The device, for which stores are opened and engines made anew.
    /// - Throws: What the file system throws.
    public func restarted() throws -> TestDevice {
        crash()
        return TestDevice(relay: relay, identity, life: try life.next(in: relay))
    }
}

typealias MirrorPlace = TestDevice.MirrorPlace
