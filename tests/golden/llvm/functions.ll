declare <16 x float> @llvm.floor.v16f32(<16 x float>)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
@thread_column.3.16 = private constant [18 x i32] [i32 0, i32 1, i32 2, i32 0, i32 1, i32 2, i32 0, i32 1, i32 2, i32 0, i32 1, i32 2, i32 0, i32 1, i32 2, i32 0, i32 1, i32 2], align 64
declare i64 @llvm.smin.i64(i64, i64)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare <8 x float> @llvm.floor.v8f32(<8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
@thread_column.3.8 = private constant [10 x i32] [i32 0, i32 1, i32 2, i32 0, i32 1, i32 2, i32 0, i32 1, i32 2, i32 0], align 64
define void @jaxwarp_functions(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
  %last_chunk = sub i64 %col_end, 16
  %p0.at = getelementptr ptr, ptr %buffers, i64 0
  %p0 = load ptr, ptr %p0.at, align 8, !invariant.load !0
  %p1.at = getelementptr ptr, ptr %buffers, i64 1
  %p1 = load ptr, ptr %p1.at, align 8, !invariant.load !0
  %p2.at = getelementptr ptr, ptr %buffers, i64 2
  %p2 = load ptr, ptr %p2.at, align 8, !invariant.load !0
  %g0.at = getelementptr i64, ptr %geometry, i64 0
  %g0 = load i64, ptr %g0.at, align 8, !invariant.load !0
  %g1.at = getelementptr i64, ptr %geometry, i64 1
  %g1 = load i64, ptr %g1.at, align 8, !invariant.load !0
  %g2.at = getelementptr i64, ptr %geometry, i64 2
  %g2 = load i64, ptr %g2.at, align 8, !invariant.load !0
  %b0.0 = mul i64 4, %g0
  %b0 = add i64 0, %b0.0
  %b1.0 = mul i64 8, %g1
  %b1 = add i64 %b0, %b1.0
  %b2.0 = mul i64 8, %g2
  %b2 = add i64 %b1, %b2.0
  %streams = icmp ugt i64 %b2, 16777216
  %lines = select i1 %streams, i64 63, i64 -1
  %v1 = icmp slt i64 %row_begin, %row_end
  %v2 = icmp sle i64 %col_begin, %last_chunk
  br i1 %v1, label %row, label %end
row:
  br i1 %v2, label %full, label %rest
full:
  br label %chunk
chunk:
  %v3 = phi i64 [ %col_begin, %full ], [ %v40, %stored35 ]
  %v4 = trunc nuw nsw i64 %v3 to i32
  %v5 = getelementptr float, ptr %p0, i64 %v3
  %v6 = load <16 x float>, ptr %v5, align 4
  %v7 = call <16 x float> @llvm.floor.v16f32(<16 x float> %v6)
  %v8 = fsub <16 x float> %v6, %v7
  %v9 = fcmp olt <16 x float> %v7, splat (float 0xBFF0000000000000)
  %v10 = fcmp ogt <16 x float> %v7, splat (float 0x4000000000000000)
  %v11 = select <16 x i1> %v10, <16 x float> splat (float 0x4000000000000000), <16 x float> %v7
  %v12 = select <16 x i1> %v9, <16 x float> splat (float 0xBFF0000000000000), <16 x float> %v11
  %v13 = getelementptr float, ptr %p1, i64 %v3
  %v17 = ptrtoint ptr %v13 to i64
  %v18 = and i64 %v17, %lines
  %v19 = icmp eq i64 %v18, 0
  br i1 %v19, label %stream14, label %cache15
stream14:
  store <16 x float> %v12, ptr %v13, align 64, !nontemporal !4
  br label %stored16
cache15:
  store <16 x float> %v12, ptr %v13, align 4
  br label %stored16
stored16:
  %v20 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v8, <16 x float> splat (float 0x4010000000000000), <16 x float> splat (float 0xC000000000000000))
  %v21 = fcmp olt <16 x float> %v20, splat (float 0xBFF0000000000000)
  %v22 = fcmp ogt <16 x float> %v20, splat (float 0x3FF0000000000000)
  %v23 = select <16 x i1> %v22, <16 x float> splat (float 0x3FF0000000000000), <16 x float> %v20
  %v24 = select <16 x i1> %v21, <16 x float> splat (float 0xBFF0000000000000), <16 x float> %v23
  %v25 = urem i32 %v4, 3
  %v26 = zext i32 %v25 to i64
  %v27 = getelementptr i32, ptr @thread_column.3.16, i64 %v26
  %v28 = load <16 x i32>, ptr %v27, align 4
  %v29 = icmp eq <16 x i32> %v28, splat (i32 0)
  %v30 = select <16 x i1> %v29, <16 x float> splat (float 0x3FF0000000000000), <16 x float> splat (float 0xBFF0000000000000)
  %v31 = fadd <16 x float> %v24, %v30
  %v32 = getelementptr float, ptr %p2, i64 %v3
  %v36 = ptrtoint ptr %v32 to i64
  %v37 = and i64 %v36, %lines
  %v38 = icmp eq i64 %v37, 0
  br i1 %v38, label %stream33, label %cache34
stream33:
  store <16 x float> %v31, ptr %v32, align 64, !nontemporal !4
  br label %stored35
cache34:
  store <16 x float> %v31, ptr %v32, align 4
  br label %stored35
stored35:
  %v39 = add i64 %v3, 16
  %v40 = call i64 asm "", "=r,0"(i64 %v39)
  %v41 = icmp sle i64 %v40, %last_chunk
  br i1 %v41, label %chunk, label %rest, !llvm.loop !1
rest:
  %v42 = phi i64 [ %col_begin, %row ], [ %v40, %stored35 ]
  %v43 = icmp slt i64 %v42, %col_end
  br i1 %v43, label %partial, label %past
partial:
  br label %part
part:
  %v44 = phi i64 [ %v42, %partial ], [ %v75, %part ]
  %v45 = sub i64 %col_end, %v44
  %v46 = call i64 @llvm.smin.i64(i64 %v45, i64 8)
  %v47 = trunc i64 %v46 to i32
  %v48 = insertelement <8 x i32> poison, i32 %v47, i32 0
  %v49 = shufflevector <8 x i32> %v48, <8 x i32> poison, <8 x i32> zeroinitializer
  %v50 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v49
  %v51 = trunc nuw nsw i64 %v44 to i32
  %v52 = getelementptr float, ptr %p0, i64 %v44
  %v53 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v52, i32 4, <8 x i1> %v50, <8 x float> zeroinitializer)
  %v54 = freeze <8 x float> %v53
  %v55 = call <8 x float> @llvm.floor.v8f32(<8 x float> %v54)
  %v56 = fsub <8 x float> %v54, %v55
  %v57 = fcmp olt <8 x float> %v55, splat (float 0xBFF0000000000000)
  %v58 = fcmp ogt <8 x float> %v55, splat (float 0x4000000000000000)
  %v59 = select <8 x i1> %v58, <8 x float> splat (float 0x4000000000000000), <8 x float> %v55
  %v60 = select <8 x i1> %v57, <8 x float> splat (float 0xBFF0000000000000), <8 x float> %v59
  %v61 = getelementptr float, ptr %p1, i64 %v44
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v60, ptr %v61, i32 4, <8 x i1> %v50)
  %v62 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v56, <8 x float> splat (float 0x4010000000000000), <8 x float> splat (float 0xC000000000000000))
  %v63 = fcmp olt <8 x float> %v62, splat (float 0xBFF0000000000000)
  %v64 = fcmp ogt <8 x float> %v62, splat (float 0x3FF0000000000000)
  %v65 = select <8 x i1> %v64, <8 x float> splat (float 0x3FF0000000000000), <8 x float> %v62
  %v66 = select <8 x i1> %v63, <8 x float> splat (float 0xBFF0000000000000), <8 x float> %v65
  %v67 = urem i32 %v51, 3
  %v68 = zext i32 %v67 to i64
  %v69 = getelementptr i32, ptr @thread_column.3.8, i64 %v68
  %v70 = load <8 x i32>, ptr %v69, align 4
  %v71 = icmp eq <8 x i32> %v70, splat (i32 0)
  %v72 = select <8 x i1> %v71, <8 x float> splat (float 0x3FF0000000000000), <8 x float> splat (float 0xBFF0000000000000)
  %v73 = fadd <8 x float> %v66, %v72
  %v74 = getelementptr float, ptr %p2, i64 %v44
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v73, ptr %v74, i32 4, <8 x i1> %v50)
  %v75 = add i64 %v44, 8
  %v76 = icmp slt i64 %v75, %col_end
  br i1 %v76, label %part, label %parts_done, !llvm.loop !1
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
