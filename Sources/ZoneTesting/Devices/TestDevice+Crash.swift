extension TestDevice {
    /// A place at which a test can crash a device.
    public enum CrashPlace: Hashable, Sendable {
        /// A request, such as `records/modify`, is about to be sent.
        case sending(String)
        /// The relay has responded to a request, and the program has not received the response yet.
        case answered(String)
        /// A mirror has reached a place in its own work.
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

    /// The places in a mirror's work at which it can be interrupted.
    public enum MirrorPlace: String, Hashable, Sendable, CaseIterable {
        /// A batch is marked as possibly sent, and has not been sent.
        case beforeSend
        /// The relay has responded, and nothing of the response is stored.
        case afterSend
        /// The confirmation is written, but not committed.
        case insideConfirm
        /// The confirmation is committed.
        case afterConfirm
        /// A page of changes has arrived, and nothing of it is stored.
        case beforeImport
        /// The page's rows are written, but not committed.
        case insideImport
        /// The page is committed.
        case afterImport
        /// The zones in a page of the database's feed are written, but not committed.
        case insideDatabasePage
        /// Half of a full listing is stored.
        case insideSweep
    }

    /// Ends the program on this device at once, in the middle of whatever it does.
    ///
    /// Its engines, mirrors and pollers never act again; requests in progress may or may not be executed.
    public func crash() { life.end() }

    /// Ends the program on this device when it reaches a place.
    ///
    /// - Parameters:
    ///   - place: the place.
    ///   - times: how many times from now on it must reach the place, at least 1.
    public func crash(at place: CrashPlace, times: Int = 1) { life.awaitCrash(place, skipping: times - 1) }

    /// Whether the program has crashed.
    public var hasCrashed: Bool { party.isGone }

    /// Restarts the device: returns the same device, online, with the files of its folder as they were at the crash.
    ///
    /// A device that has not crashed is crashed first.
    ///
    /// - Returns: the device, for which stores and engines must be created again.
    /// - Throws: the error of the file system.
    public func restarted() throws -> TestDevice {
        crash()
        return TestDevice(relay: relay, identity, life: try life.next(in: relay))
    }
}

typealias MirrorPlace = TestDevice.MirrorPlace
