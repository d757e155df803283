declare <16 x float> @llvm.floor.v16f32(<16 x float>)
declare <16 x float> @llvm.fma.v16f32(<16 x float>, <16 x float>, <16 x float>)
declare i64 @llvm.smin.i64(i64, i64)
declare <8 x float> @llvm.masked.load.v8f32.p0(ptr, i32, <8 x i1>, <8 x float>)
declare <8 x float> @llvm.floor.v8f32(<8 x float>)
declare void @llvm.masked.store.v8f32.p0(<8 x float>, ptr, i32, <8 x i1>)
declare <8 x float> @llvm.fma.v8f32(<8 x float>, <8 x float>, <8 x float>)
define void @jaxwarp_functions(ptr %buffers, ptr %geometry, i64 %row_begin, i64 %row_end, i64 %col_begin, i64 %col_end) #0 {
entry:
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
  %v7 = icmp eq i32 3, 0
  %v8 = icmp eq i32 3, -1
  %v9 = select i1 %v7, i32 1, i32 3
  %v10 = select i1 %v8, i32 1, i32 %v9
  %v13 = sext i32 3 to i64
  %v15 = icmp sgt i64 %v13, 0
  %v17 = select i1 %v15, i32 3, i32 1
  %v30 = sext i32 0 to i64
  br i1 %v1, label %row, label %end
row:
  br label %columns
columns:
  %v2 = phi i64 [ %col_begin, %row ], [ %v4, %following ]
  %v3 = add i64 %v2, 16
  %v4 = call i64 asm "", "=r,0"(i64 %v3)
  %v5 = icmp sle i64 %v4, %col_end
  br i1 %v5, label %chunk, label %rest
chunk:
  %v6 = trunc nuw nsw i64 %v2 to i32
  %v11 = srem i32 %v6, %v10
  %v12 = add i64 %v2, 15
  %v14 = icmp sge i64 %v2, 0
  %v16 = and i1 %v14, %v15
  %v18 = select i1 %v14, i32 %v6, i32 0
  %v19 = urem i32 %v18, %v17
  %v20 = zext i32 %v19 to i64
  %v21 = add i64 %v20, 15
  %v22 = icmp slt i64 %v21, %v13
  %v23 = and i1 %v16, %v22
  %v24 = sext i32 %v11 to i64
  %v25 = add i64 %v24, 15
  %v26 = trunc i64 %v25 to i32
  %v27 = sext i32 %v26 to i64
  %v28 = icmp eq i64 %v27, %v25
  %v29 = and i1 %v23, %v28
  %v31 = icmp slt i64 %v25, %v30
  %v32 = icmp slt i64 %v30, %v24
  %v33 = or i1 %v31, %v32
  %v34 = and i1 %v29, %v33
  br i1 %v34, label %inside, label %rest
inside:
  %v35 = getelementptr float, ptr %p0, i64 %v2
  %v36 = load <16 x float>, ptr %v35, align 4
  %v37 = call <16 x float> @llvm.floor.v16f32(<16 x float> %v36)
  %v38 = fsub <16 x float> %v36, %v37
  %v39 = fcmp olt <16 x float> %v37, splat (float 0xBFF0000000000000)
  %v40 = fcmp ogt <16 x float> %v37, splat (float 0x4000000000000000)
  %v41 = select <16 x i1> %v40, <16 x float> splat (float 0x4000000000000000), <16 x float> %v37
  %v42 = select <16 x i1> %v39, <16 x float> splat (float 0xBFF0000000000000), <16 x float> %v41
  %v43 = getelementptr float, ptr %p1, i64 %v2
  %v47 = ptrtoint ptr %v43 to i64
  %v48 = and i64 %v47, %lines
  %v49 = icmp eq i64 %v48, 0
  br i1 %v49, label %stream44, label %cache45
stream44:
  store <16 x float> %v42, ptr %v43, align 64, !nontemporal !4
  br label %stored46
cache45:
  store <16 x float> %v42, ptr %v43, align 4
  br label %stored46
stored46:
  %v50 = call <16 x float> @llvm.fma.v16f32(<16 x float> %v38, <16 x float> splat (float 0x4010000000000000), <16 x float> splat (float 0xC000000000000000))
  %v51 = fcmp olt <16 x float> %v50, splat (float 0xBFF0000000000000)
  %v52 = fcmp ogt <16 x float> %v50, splat (float 0x3FF0000000000000)
  %v53 = select <16 x i1> %v52, <16 x float> splat (float 0x3FF0000000000000), <16 x float> %v50
  %v54 = select <16 x i1> %v51, <16 x float> splat (float 0xBFF0000000000000), <16 x float> %v53
  %v55 = icmp eq i32 %v11, 0
  %v56 = select i1 %v55, float 0x3FF0000000000000, float 0xBFF0000000000000
  %v57 = insertelement <16 x float> poison, float %v56, i32 0
  %v58 = shufflevector <16 x float> %v57, <16 x float> poison, <16 x i32> zeroinitializer
  %v59 = fadd <16 x float> %v54, %v58
  %v60 = getelementptr float, ptr %p2, i64 %v2
  %v64 = ptrtoint ptr %v60 to i64
  %v65 = and i64 %v64, %lines
  %v66 = icmp eq i64 %v65, 0
  br i1 %v66, label %stream61, label %cache62
stream61:
  store <16 x float> %v59, ptr %v60, align 64, !nontemporal !4
  br label %stored63
cache62:
  store <16 x float> %v59, ptr %v60, align 4
  br label %stored63
stored63:
  br label %following
rest:
  %v67 = icmp slt i64 %v2, %col_end
  br i1 %v67, label %partial, label %past
partial:
  %v68 = call i64 @llvm.smin.i64(i64 %v4, i64 %col_end)
  br label %part
part:
  %v69 = phi i64 [ %v2, %partial ], [ %v104, %part ]
  %v70 = sub i64 %col_end, %v69
  %v71 = call i64 @llvm.smin.i64(i64 %v70, i64 8)
  %v72 = trunc i64 %v71 to i32
  %v73 = insertelement <8 x i32> poison, i32 %v72, i32 0
  %v74 = shufflevector <8 x i32> %v73, <8 x i32> poison, <8 x i32> zeroinitializer
  %v75 = icmp ult <8 x i32> <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>, %v74
  %v76 = trunc nuw nsw i64 %v69 to i32
  %v77 = getelementptr float, ptr %p0, i64 %v69
  %v78 = call <8 x float> @llvm.masked.load.v8f32.p0(ptr %v77, i32 4, <8 x i1> %v75, <8 x float> zeroinitializer)
  %v79 = freeze <8 x float> %v78
  %v80 = call <8 x float> @llvm.floor.v8f32(<8 x float> %v79)
  %v81 = fsub <8 x float> %v79, %v80
  %v82 = fcmp olt <8 x float> %v80, splat (float 0xBFF0000000000000)
  %v83 = fcmp ogt <8 x float> %v80, splat (float 0x4000000000000000)
  %v84 = select <8 x i1> %v83, <8 x float> splat (float 0x4000000000000000), <8 x float> %v80
  %v85 = select <8 x i1> %v82, <8 x float> splat (float 0xBFF0000000000000), <8 x float> %v84
  %v86 = getelementptr float, ptr %p1, i64 %v69
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v85, ptr %v86, i32 4, <8 x i1> %v75)
  %v87 = call <8 x float> @llvm.fma.v8f32(<8 x float> %v81, <8 x float> splat (float 0x4010000000000000), <8 x float> splat (float 0xC000000000000000))
  %v88 = fcmp olt <8 x float> %v87, splat (float 0xBFF0000000000000)
  %v89 = fcmp ogt <8 x float> %v87, splat (float 0x3FF0000000000000)
  %v90 = select <8 x i1> %v89, <8 x float> splat (float 0x3FF0000000000000), <8 x float> %v87
  %v91 = select <8 x i1> %v88, <8 x float> splat (float 0xBFF0000000000000), <8 x float> %v90
  %v92 = insertelement <8 x i32> poison, i32 %v76, i32 0
  %v93 = shufflevector <8 x i32> %v92, <8 x i32> poison, <8 x i32> zeroinitializer
  %v94 = add <8 x i32> %v93, <i32 0, i32 1, i32 2, i32 3, i32 4, i32 5, i32 6, i32 7>
  %v95 = icmp eq <8 x i32> splat (i32 3), splat (i32 0)
  %v96 = icmp eq <8 x i32> splat (i32 3), splat (i32 -1)
  %v97 = select <8 x i1> %v95, <8 x i32> splat (i32 1), <8 x i32> splat (i32 3)
  %v98 = select <8 x i1> %v96, <8 x i32> splat (i32 1), <8 x i32> %v97
  %v99 = srem <8 x i32> %v94, %v98
  %v100 = icmp eq <8 x i32> %v99, splat (i32 0)
  %v101 = select <8 x i1> %v100, <8 x float> splat (float 0x3FF0000000000000), <8 x float> splat (float 0xBFF0000000000000)
  %v102 = fadd <8 x float> %v91, %v101
  %v103 = getelementptr float, ptr %p2, i64 %v69
  call void @llvm.masked.store.v8f32.p0(<8 x float> %v102, ptr %v103, i32 4, <8 x i1> %v75)
  %v104 = add i64 %v69, 8
  %v105 = icmp slt i64 %v104, %v68
  br i1 %v105, label %part, label %parts_done, !llvm.loop !1
parts_done:
  br label %following
following:
  br label %columns, !llvm.loop !1
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
