import HTTPTypes
import NIOCore
import RelayAPI

/// The upgrade of a connection from HTTP to WebSocket, or its rejection.
extension HTTPConnectionHandler {
    func open(_ purpose: SocketPurpose, for plan: RequestPlan, _ context: ChannelHandlerContext) {
        switch WebSocketHandshake.check(plan, for: purpose) {
        case .refused(let refusal):
            refuseSocket(refusal, plan, context)
        case .accepted(let acceptance):
            // Other clients than browsers send no origin.
            guard let origin = plan.request.headers[.origin] else {
                return accept(acceptance, purpose, for: plan, context)
            }
            switch purpose {
            case .notices: judge(origin, acceptance, plan, context)
            case .echo where WebSocketHandshake.isOwn(origin: origin, host: plan.request.headers[.hostField] ?? ""):
                accept(acceptance, purpose, for: plan, context)
            case .echo: refuseSocket(WebSocketHandshake.originRefused, plan, context)
            }
        }
    }

    private func accept(
        _ acceptance: WebSocketHandshake.Acceptance,
        _ purpose: SocketPurpose,
        for plan: RequestPlan,
        _ context: ChannelHandlerContext
    ) {
        process(.socketOpened, context)
        context.writeAndFlush(wrapOutboundOut(ResponseBytes.switching(acceptance)), promise: nil)
        upgrade(to: purpose, for: plan.request, context)
    }

    /// Accepts or refuses a browser's notice socket by its origin, which may have to be looked up elsewhere.
    private func judge(
        _ origin: String,
        _ acceptance: WebSocketHandshake.Acceptance,
        _ plan: RequestPlan,
        _ context: ChannelHandlerContext
    ) {
        guard let admission = loop.services.notices?.admission else {
            return refuseSocket(WebSocketHandshake.originRefused, plan, context)
        }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let executor = loop.executor
        admission.allowsUpgrade(plan.request, origin: origin) { isAllowed in
            executor.run {
                let handler = bound.value
                // The connection may have ended meanwhile.
                guard let context = handler.context, case .opening = handler.state.state else { return }
                if isAllowed {
                    handler.accept(acceptance, .notices, for: plan, context)
                } else {
                    handler.refuseSocket(WebSocketHandshake.originRefused, plan, context)
                }
            }
        }
    }

    private func refuseSocket(_ refusal: SocketRefusal, _ plan: RequestPlan, _ context: ChannelHandlerContext) {
        loop.services.onRefusal(refusal.refusedRequest)
        let buffer = ResponseBytes.write(
            refusal.answer,
            persistence: refusal.refusedRequest.status == 426 ? .closeUpgradeRequired : .close,
            date: loop.dateText,
            omitsBody: plan.request.method == .head,
            allocator: context.channel.allocator
        )
        process(.socketRefused, context)
        finish(with: buffer, on: context)
    }

    /// Adds the socket after this handler, then removes the decoder and this handler; bytes received early are passed on to the socket.
    private func upgrade(to purpose: SocketPurpose, for request: APIRequest, _ context: ChannelHandlerContext) {
        let limits = loop.services.limits
        let socket = WebSocketChannelHandler(
            loop: loop,
            messageLimit: purpose == .echo ? limits.echoMessage : limits.socketMessage,
            isSecure: isSecure
        )
        loop.remove(self)
        let pipeline = context.pipeline.syncOperations
        do {
            try pipeline.addHandler(socket, position: .after(self))
            if purpose == .notices {
                // A slow reader's notices wait in its queue, where they can be merged, not in the channel.
                try context.channel.syncOptions?.setOption(
                    .writeBufferWaterMark,
                    value: .init(low: limits.socketBuffer / 2, high: limits.socketBuffer)
                )
            }
        } catch {
            return context.close(promise: nil)
        }
        switch (purpose, loop.worker) {
        case (.notices, let worker?): listen(request, on: socket, worker, context.channel)
        case (.notices, nil):
            socket.close(code: 1013, reason: "notices are not served here")
        case (.echo, _):
            socket.delegate = EchoSocket(socket: socket, rate: loop.services.socketFrames, uptime: loop.services.uptime)
        }
        let bound = NIOLoopBound(self, eventLoop: context.eventLoop)
        let boundContext = NIOLoopBound(context, eventLoop: context.eventLoop)
        pipeline.removeHandler(decoderHandler).whenComplete { _ in
            boundContext.value.fireChannelReadComplete()
            boundContext.value.pipeline.syncOperations.removeHandler(bound.value, promise: nil)
            boundContext.value.channel.read()
        }
    }

    /// Creates the notice connection, with a task only if its admission must wait.
    private func listen(
        _ request: APIRequest,
        on socket: WebSocketChannelHandler,
        _ worker: EventLoopNoticeWorker,
        _ channel: any Channel
    ) {
        NoticeSocketDelegate.make(for: request, on: socket, worker: worker) { connection in
            self.admission = connection
            self.loop.begin(admissionOf: self, on: channel)
        }
    }
}
