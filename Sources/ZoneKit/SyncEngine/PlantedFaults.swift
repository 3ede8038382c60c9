import Records
import SyncCore

// Where planted faults take effect in this module. See `PlantedFault`.

extension AccountBinding {
    /// Whether work that started for one sign-in is prevented from continuing as another user.
    static var isHeeded: Bool { !PlantedFault.sentForAnother.isPlanted }
}

extension SyncDriver {
    /// Called before the app receives a page.
    ///
    /// Does nothing unless a fault is planted.
    func beforeDelivery(of page: ZonePage<CKRecord>, in zone: ZoneID) async {
        guard PlantedFault.tokenBeforeData.isPlanted else { return }
        state.update { $0.feed.zoneTokens[zone] = page.token }
        await saveState()
    }
}
