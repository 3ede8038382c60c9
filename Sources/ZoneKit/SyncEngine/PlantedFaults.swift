import Records
import SyncCore

// Where planted faults take hold in this module. See `PlantedFault`.

extension AccountBinding {
    /// Whether what was begun for one sign-in is kept from going on in the name of another.
    static var isHeeded: Bool { !PlantedFault.sentForAnother.isPlanted }
}

extension SyncDriver {
    /// What is done with a page before the application has it: nothing.
    func beforeDelivery(of page: ZonePage<CKRecord>, in zone: ZoneID) async {
        guard PlantedFault.tokenBeforeData.isPlanted else { return }
        state.update { $0.feed.zoneTokens[zone] = page.token }
        await saveState()
    }
}
