declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
define void @jaxwarp_saxpy(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 16
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %a0 = load float, ptr %p0, align 4
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %p3.at = getelementptr ptr, ptr %buffers, i64 3
  %p3 = load ptr, ptr %p3.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %b0 = add i64 0, 4
  %b1.0 = mul i64 4, %g0
  %b1 = add i64 %b0, %b1.0
  %b2.0 = mul i64 4, %g1
  %b2 = add i64 %b1, %b2.0
  %b3.0 = mul i64 8, %g2
  %b3 = add i64 %b2, %b3.0
  %streams = icmp ugt i64 %b3, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  %v9 = insertelement <16 x float> poison, float %a0, i32 0
  %v10 = shufflevector <16 x float> %v9, <16 x float> poison, <16 x i32> zeroinitializer
  %v38 = insertelement <8 x float> poison, float %a0, i32 0
  %v39 = shufflevector <8 x float> %v38, <8 x float> poison, <8 x i32> zeroinitializer
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v20, %stored15 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = getelementptr float, ptr %p1, i64 %v3
  %v6 = load <16 x float>, ptr %v5, align 4
  %v7 = getelementptr float, ptr %p2, i64 %v3
  %v8 = load <16 x float>, ptr %v7, align 4
  %v11 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v10, <16 x float> %v6, <16 x float> %v8)
  %v12 = getelementptr float, ptr %p3, i64 %v3
  %v16 = ptrtoint ptr %v12 to i64
  %v17 = and i64 %v16, %lines
  %v18 = icmp eq i64 %v17, 0
  br i1 %v18, label %stream13, label %cache14
stream13:
  store <16 x float> %v11, ptr %v12, align 64, !nontemporal !4
  br label %stored15
cache14:
  store <16 x float> %v11, ptr %v12, align 4
  br label %stored15
stored15:
  %v19 = add i64 %v3, 16
  %v20 = call i64 asm "", "=r,0"(i64 %v19)
  %v21 = icmp sle i64 %v20, %last_chunk
  br i1 %v21, label %chunk, label %rest, !llvm.loop !1
rest:
  %v22 = phi i64 [ %col_begin, %row ], [ %v20, %stored15 ]
  %v23 = icmp slt i64 %v22, %col_end
  br i1 %v23, label %partial, label %past
partial:
  br label %part
part:
  %v24 = phi i64 [ %v22, %partial ], [ %v42, %part ]
  %v25 = sub i64 %col_end, %v24
  %v26 = call i64 @llvm.smin.i64(i64 %v25, i64 8)
  %v27 = trunc i64 %v26 to i32
  %v28 = insertelement <8 x i32> poison, i32 %v27, i32 0
  %v29 = shufflevector <8 x i32> %v28, <8 x i32> poison, <8 x i32> zeroinitializer
  %v30 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v29
  %v31 = trunc nuw nsw i64 %v24 to i32
  %v32 = getelementptr float, ptr %p1, i64 %v24
  %v33 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v32, i32 4, <8 x i1> %v30, <8 x float> zeroinitializer)
  %v34 = freeze <8 x float> %v33
  %v35 = getelementptr float, ptr %p2, i64 %v24
  %v36 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v35, i32 4, <8 x i1> %v30, <8 x float> zeroinitializer)
  %v37 = freeze <8 x float> %v36
  %v40 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v39, <8 x float> %v34, <8 x float> %v37)
  %v41 = getelementptr float, ptr %p3, i64 %v24
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v40, ptr %v41, i32 4, <8 x i1> %v30)
  %v42 = add i64 %v24, 8
  %v43 = icmp slt i64 %v42, %col_end
  br i1 %v43, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %past
past:
  br label %end
end:
  br i1 %streams, label %fence, label %over
fence:
  fence seq_cst
  br label %over
over:
  ret void
}
attributes #0 = { nounwind alignstack=64 }
attributes #1 = { nobuiltin nounwind willreturn memory(none) }
attributes #2 = { nounwind willreturn }
attributes #3 = { noinline cold nounwind willreturn memory(none) }

!0 = !{}
!1 = distinct !{!1, !2}
!2 = !{!"llvm.loop.unroll.disable"}
!3 = !{!"branch_weights", i32 1, i32 2000}
!4 = !{i32 1}
!5 = distinct !{!5, !6}
!6 = !{!"llvm.loop.unroll.runtime.disable"}
